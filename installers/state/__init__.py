"""State of provisioning on disk: state file, journal, lock; and its progress events."""
