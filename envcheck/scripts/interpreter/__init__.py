"""From the syntax tree of a script to its commands: a walk through it, with a handler for each kind of statement."""
