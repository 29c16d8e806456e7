"""Provisioning of many hosts: each runs `envcheck provision`, plans and results are shown here."""
