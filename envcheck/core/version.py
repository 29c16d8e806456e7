"""The version of envcheck, which setup.cfg reads, and that of the documents of --json."""

__version__ = "0.1.0"
# Of every document: it rises when what envcheck/cli/schemas says stops being true.
SCHEMA_VERSION = 2
