"""Facts from a machine: live, simulated or recorded."""
