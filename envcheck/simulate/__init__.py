"""Simulated machines: a TOML description becomes a folder of tools that answer like the vendors' own."""
