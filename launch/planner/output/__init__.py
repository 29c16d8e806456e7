"""Render plans as text, JSON and pictures."""
