"""Recipes: their data classes, loading, validation and selection.  The recipe files (*.toml) are in this folder."""
