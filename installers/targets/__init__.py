"""Targets, where commands run: a virtual environment on this host, or a container."""
