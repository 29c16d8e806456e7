"""Collectors that run on a host, and the types of their answers."""
