"""A training over many hosts: each node started over ssh with its own rank, all watched and ended together."""
