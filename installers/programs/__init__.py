"""Programs that run inside the environment that provision makes: they import paddle, envcheck never does."""
