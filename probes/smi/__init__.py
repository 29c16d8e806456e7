"""Parsers of nvidia-smi and ixsmi, which have the same output formats."""
