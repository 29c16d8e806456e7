"""Data types and readers for the answers of the host collectors."""
