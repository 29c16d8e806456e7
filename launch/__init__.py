"""Launching: preview and plan a job, check it, run and monitor it, and inspect past runs."""
