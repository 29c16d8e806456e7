"""Repeatable provisioning: lock files, bundles for machines without a network, and model weights."""
