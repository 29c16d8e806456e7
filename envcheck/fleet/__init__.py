"""Fleets: resolve host names, collect facts over OpenSSH, evaluate each host here, and compare the hosts."""
