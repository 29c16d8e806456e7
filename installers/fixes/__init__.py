"""`envcheck doctor --fix`: apply safe remedies; shown first, verified afterwards, journaled, and undoable."""
