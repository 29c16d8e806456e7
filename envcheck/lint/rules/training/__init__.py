"""Rules about trainings: launchers, options, parallel degrees."""
