"""Provisioning plans and progress as text and JSON."""
