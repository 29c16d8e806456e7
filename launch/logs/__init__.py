"""Logs of trainings: what a line, or a log as it grows, says of steps, loss, speed and memory."""
