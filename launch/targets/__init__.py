"""Places where a training runs, and the environment that it gets there."""
