"""Training jobs of a file or a command: what they train, with what, and where each value was read."""
