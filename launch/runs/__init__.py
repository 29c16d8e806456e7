"""The runs of this machine, seen from their records: listed, shown, followed, stopped."""
