"""The parts of a provisioning plan, and the facts and preconditions that it is based on."""
