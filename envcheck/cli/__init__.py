"""The command line: commands, options, help and completion.  Only envcheck/__main__.py imports it."""
