"""`envcheck doctor --fix`: the remedies that are safe to apply, shown first, proved after, journaled, taken back."""
