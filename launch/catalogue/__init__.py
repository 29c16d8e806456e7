"""Data for the planner: models, devices, frameworks, and models read from a config.json."""
