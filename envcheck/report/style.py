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
    """A terminal: its width in columns, its character encoding, whether it shows colours, and how much to print."""

    width: int = 80
    encoding: str = "utf-8"
    colour: bool = False
    is_verbose: bool = False

    @property
    def unicode(self) -> bool:
        """Whether every character can be printed."""
        return self.encoding.lower().replace("-", "") == "utf8"

    def fit(self, text: str) -> str:
        """Return the text with `?` for each character that the terminal's encoding lacks (GBK has Chinese, no ✓)."""
        if self.unicode:
            return text
        try:
            return text.encode(self.encoding).decode(self.encoding)
        except UnicodeEncodeError:
            return text.replace("×", "x").encode(self.encoding, "replace").decode(self.encoding)
        except LookupError:
            return text.encode("ascii", "replace").decode()

    def render_mark(self, status: Status) -> str:
        """Return the status mark in brackets, such as [✓], coloured if the terminal shows colours."""
        shown = f"[{(MARKS if self.unicode else ASCII_MARKS)[status]}]"
        return f"\x1b[{COLOURS[status]}m{shown}\x1b[0m" if self.colour else shown
