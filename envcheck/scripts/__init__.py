"""Parse launch scripts, training configurations and container files; nothing is evaluated here."""
