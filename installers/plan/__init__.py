"""What a plan of provisioning consists of, and the facts and preconditions behind it."""
