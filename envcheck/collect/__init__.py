"""Collects facts from a host: live, simulated or recorded."""
