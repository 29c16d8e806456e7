"""What a terminal can show, and the marks and colours of severities."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.model import Severity

MARKS = {Severity.OK: "✓", Severity.SKIP: "-", Severity.UNKNOWN: "?", Severity.WARN: "!", Severity.FAIL: "✗"}
ASCII_MARKS = {**MARKS, Severity.OK: "+", Severity.FAIL: "x"}
COLOURS = {Severity.OK: "32", Severity.SKIP: "2", Severity.UNKNOWN: "35", Severity.WARN: "33", Severity.FAIL: "31"}


@dataclass(frozen=True)
class Style:
    """What the terminal can: its width, whether it has UTF-8 and colours."""

    width: int = 80
    unicode: bool = True
    colour: bool = False

    def mark(self, severity: Severity) -> str:
        shown = f"[{(MARKS if self.unicode else ASCII_MARKS)[severity]}]"
        return f"\x1b[{COLOURS[severity]}m{shown}\x1b[0m" if self.colour else shown
