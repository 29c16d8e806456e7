"""Reads launch scripts, training configurations and container files; judges nothing."""
