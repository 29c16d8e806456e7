"""What a recipe wants, what is missing, and the performing of it, each step proved."""
