"""The types of simulated hosts that vendors' simulations use."""
