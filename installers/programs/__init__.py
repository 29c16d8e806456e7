"""Programs that run inside the environment that provision makes, by its Python; envcheck never imports them."""
