"""One file per verb: read options, call one function, print, return the exit code."""
