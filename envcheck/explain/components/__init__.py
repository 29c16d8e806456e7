"""Lines of job systems, container engines and other programs around the training that no catalogue entry knows."""
