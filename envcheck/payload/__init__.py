"""envcheck as a file that other hosts can run, and the programs that run it there."""
