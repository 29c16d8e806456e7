"""Plans as text, documents and pictures."""
