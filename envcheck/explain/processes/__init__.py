"""What became of each process: its progress, its end and the ranks that it names; texts in, values out."""
