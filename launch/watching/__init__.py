"""Watching over a run: the cards beside it, rules that end it early, the full screen."""
