"""A recipe's container: planning, comparison with an existing one, creation and removal."""
