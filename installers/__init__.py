"""Provisioning: recipes, plans of what is missing, and the steps that install and verify it."""
