"""The report about many hosts, in each format."""
