"""envcheck: checks whether a machine is ready to train, makes it ready, and starts the training."""
