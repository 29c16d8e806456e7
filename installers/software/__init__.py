"""Install into an environment or a container: packages, clones, and what is built from source."""
