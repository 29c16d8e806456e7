"""`envcheck runs`: list, show, follow and stop the runs of this machine by their records."""
