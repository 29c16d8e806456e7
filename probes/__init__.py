"""Parsers of vendor tools and of the collector's answers: text in, data out.

Parsers open and run nothing, and never raise: text that they do not know gives a document of kind `unknown`.
"""
