"""The kinds of steps that a plan of provisioning consists of: how each is planned, done, verified and undone."""
