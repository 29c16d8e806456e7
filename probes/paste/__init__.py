"""Reads texts that somebody pasted: takes the decorations off, splits them into outputs, and joins the documents."""
