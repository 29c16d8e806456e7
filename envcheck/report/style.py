"""What a terminal can show, and the marks and colours of statuses."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.model import Status

MARKS = {
    Status.OK: "✓",
    Status.NOT_APPLICABLE: "-",
    Status.BLOCKED: "⊘",
    Status.UNKNOWN: "?",
    Status.WARN: "!",
    Status.FAIL: "✗",
}
ASCII_MARKS = {**MARKS, Status.OK: "+", Status.BLOCKED: "/", Status.FAIL: "x"}
COLOURS = {
    Status.OK: "32",
    Status.NOT_APPLICABLE: "2",
    Status.BLOCKED: "34",
    Status.UNKNOWN: "35",
    Status.WARN: "33",
    Status.FAIL: "31",
}


@dataclass(frozen=True)
class Style:
    """What the terminal can: its width, whether it has UTF-8 and colours."""

    width: int = 80
    unicode: bool = True
    colour: bool = False

    def mark(self, status: Status) -> str:
        shown = f"[{(MARKS if self.unicode else ASCII_MARKS)[status]}]"
        return f"\x1b[{COLOURS[status]}m{shown}\x1b[0m" if self.colour else shown
