"""What lint rules read: the file, its jobs, versions and name tables."""
