"""nvidia-smi and ixsmi, whose outputs have the same forms."""
