"""Programs that run with the Python of a provisioned environment; envcheck never imports them."""
