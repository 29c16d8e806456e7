"""The lowest layer: data types, errors, subprocesses, paths and text. It imports nothing from the other packages."""
