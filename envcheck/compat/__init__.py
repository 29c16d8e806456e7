"""Versions that belong together: the tables (TOML, each row with source and date), judging a machine, solving for one.

Verdicts are three: tested, known bad, unknown.  Unknown is no failure: no table names the pair, the active test
decides.  Nothing of the frameworks is imported; versions come from package metadata and version files.
"""
