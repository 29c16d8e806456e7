"""Patterns in recipes: plain text, * for anything, {version} and {architecture}; no expression of a stranger's is run.

Matching takes time in proportion to the text, whatever the pattern.
"""

from __future__ import annotations

import re

LINE_LIMIT = 4096  # characters of a line that are looked at
_PLACES = {
    "{version}": r"(?P<version>[0-9][A-Za-z0-9.]{0,63})",
    "{architecture}": r"(?P<architecture>x86_64|aarch64|amd64|arm64)",
}
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def contains(pattern: str, line: str) -> bool:
    """Whether the pieces between the * stand in the line, in this order; case does not count."""
    text, at = line[:LINE_LIMIT].casefold(), 0
    for piece in pattern.casefold().split("*"):
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def parts(pattern: str, text: str) -> dict[str, str] | None:
    """What stands at {version} and {architecture} when the whole text is like the pattern; None when it is not."""
    found = re.fullmatch(_expression(pattern), text[:LINE_LIMIT])
    if not found:
        return None
    said = {name: value.rstrip(".") for name, value in found.groupdict().items() if name in ("version", "architecture")}
    return {name: _SAME.get(value, value) for name, value in said.items()}


def _expression(pattern: str) -> str:
    """A * ends at the first place where what follows it fits, and is not tried again: the last one alone may grow."""
    head, *rest = [_piece(part) for part in pattern.split("*")]
    kept = [f"(?=(?P<star{n}>.*?{part}))(?P=star{n})" for n, part in enumerate(rest[:-1])]
    return "".join([head, *kept, *(f".*{part}" for part in rest[-1:])])


def _piece(text: str) -> str:
    return "".join(_PLACES.get(part, re.escape(part)) for part in re.split(r"(\{version\}|\{architecture\})", text))
