"""envcheck.lock: what was installed, exactly."""
