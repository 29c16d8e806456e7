"""The version of envcheck, which setup.cfg reads, and that of the documents of --json."""

__version__ = "0.1.0"
# Of every document: it rises when what envcheck/schemas says stops being true, and the files there rise with it.
SCHEMA_VERSION = 2
