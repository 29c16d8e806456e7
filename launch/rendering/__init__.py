"""From a recipe's job to the one that is started: its size, the user's own options, the words of the upstream."""
