"""A training job resolved for one machine: its command, container and requirements."""
