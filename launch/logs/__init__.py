"""Parse training logs: steps, loss, speed and memory."""
