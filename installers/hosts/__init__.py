"""Provisioning many hosts: the same verb there, one plan shown here."""
