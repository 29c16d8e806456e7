"""Talking with what was trained: which program, where, and whether an answer comes."""
