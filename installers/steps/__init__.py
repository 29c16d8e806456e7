"""The kinds of provisioning steps: how each is planned, applied, verified and undone."""
