"""The types of simulated machines that vendors' tools use."""
