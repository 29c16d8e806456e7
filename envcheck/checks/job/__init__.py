"""Checks of one job's requirements; run when a job is named."""
