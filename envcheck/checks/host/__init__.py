"""Checks of the host: memory, disks, network, user and container engine."""
