"""What a provisioning leaves on disk: state file, journal, lock; and its progress."""
