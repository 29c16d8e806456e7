"""The ground floor: data types, errors, subprocesses, paths, text.  Imports nothing above it."""
