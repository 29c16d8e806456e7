"""Rules about training jobs: launchers, options, parallel degrees."""
