"""The version of envcheck, which setup.cfg reads, and the schema version of --json documents."""

__version__ = "0.1.0"
# In every document: incremented for an incompatible change of envcheck/cli/schemas.
SCHEMA_VERSION = 2
