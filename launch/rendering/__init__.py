"""Turn a recipe's job into the command to start: node and card counts, user options, the upstream's option names."""
