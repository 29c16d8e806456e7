"""Measurements of envcheck, each run from the checkout: python -m benchmarks.NAME."""
