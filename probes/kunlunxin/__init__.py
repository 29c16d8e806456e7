"""Parsers of what Kunlunxin's tools and driver print."""
