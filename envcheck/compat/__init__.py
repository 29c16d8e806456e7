"""Compatible versions: the tables (TOML, each row with source and date), checking a host, and solving for versions.

There are three verdicts: tested, known bad, unknown.  Unknown is not a failure: no table lists the pair, and the
hardware test decides.  Frameworks are never imported; versions come from package metadata and version files.
"""
