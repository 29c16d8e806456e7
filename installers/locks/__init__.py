"""envcheck.lock: the exact versions and files that were installed."""
