"""How envcheck gets onto another machine."""
