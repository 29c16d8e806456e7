"""Monitoring of a run: card samples, stop rules, full screen."""
