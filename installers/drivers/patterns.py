"""Patterns in recipes: plain text, * for any text, {version} and {architecture}.

Recipes cannot contain regular expressions: matching takes time proportional to the text, whatever the pattern.
"""

from __future__ import annotations

import re

LINE_LIMIT = 4096  # characters of a line that are searched
_PLACES = {
    "{version}": r"(?P<version>[0-9][A-Za-z0-9.]{0,63})",
    "{architecture}": r"(?P<architecture>x86_64|aarch64|amd64|arm64)",
}
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def contains_pieces(pattern: str, line: str) -> bool:
    """Return whether the pieces between the * occur in the line, in this order; case is ignored."""
    text, at = line[:LINE_LIMIT].casefold(), 0
    for piece in pattern.casefold().split("*"):
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def match_parts(pattern: str, text: str) -> dict[str, str] | None:
    """Return the text at {version} and {architecture} if the whole text matches the pattern, else None."""
    found = re.fullmatch(_build_expression(pattern), text[:LINE_LIMIT])
    if not found:
        return None
    said = {name: value.rstrip(".") for name, value in found.groupdict().items() if name in ("version", "architecture")}
    return {name: _SAME.get(value, value) for name, value in said.items()}


def _build_expression(pattern: str) -> str:
    """Return the expression; each * is possessive (it ends at the first fit and never backtracks), except the last."""
    head, *rest = [_escape_piece(part) for part in pattern.split("*")]
    kept = [f"(?=(?P<star{n}>.*?{part}))(?P=star{n})" for n, part in enumerate(rest[:-1])]
    return "".join([head, *kept, *(f".*{part}" for part in rest[-1:])])


def _escape_piece(text: str) -> str:
    return "".join(_PLACES.get(part, re.escape(part)) for part in re.split(r"(\{version\}|\{architecture\})", text))
