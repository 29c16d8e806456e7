"""From the tree of a script to its commands: a walk through it, and what each kind of statement does to the walk."""
