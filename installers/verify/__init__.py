"""Verifies an environment: imports, a matmul on every device, an all-reduce."""
