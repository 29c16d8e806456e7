"""One training run: start, follow, record, diagnose."""
