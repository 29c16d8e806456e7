"""What the gates share."""

from __future__ import annotations

from envcheck.model import Finding, Remedy, Severity


def answer(
    name: str, good: bool | None, seen: str, words: str, *commands: str, bad: Severity = Severity.FAIL
) -> Finding:
    """OK, `bad`, or with None: cannot tell."""
    severity = {True: Severity.OK, False: bad, None: Severity.UNKNOWN}[good]
    return Finding(name, severity, seen, None if good else Remedy(words, commands))
