"""Programs that run in the training environment, with paddle and numpy alone; envcheck starts them and imports none."""
