"""What lint rules read: the file, its jobs, versions and tables of names."""
