"""One file per command: read the options, call one function, print, return the exit code."""
