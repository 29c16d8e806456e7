"""What would run, whether it may, the running and watching of it, and what happened."""
