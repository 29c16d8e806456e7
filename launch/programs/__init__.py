"""Programs that run in the training's environment, on the host or in a container."""
