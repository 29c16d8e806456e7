"""Machines that are not there: a description in TOML becomes a folder of tools that answer like the vendors'."""
