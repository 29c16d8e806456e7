"""A training over many hosts: each node is started over ssh with its rank; all are watched and stopped together."""
