"""A pasted text made ready for the readers of npu-smi's family: its lines, and the commands that stand among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from envcheck.core.model import Document
from envcheck.core.text import clean, unstamped

TOOL = "npu-smi"

_NAMES = ("npu-smi", "hccn_tool", "npu-list", "lspci", "cat ")
_COMMAND = re.compile(
    r"\s*(?:\([^()]{1,60}\)\s*)*"  # (base), the conda environment
    r"(?:\[[^\]]{1,80}\]\s*[#$%>]?\s*|[\w.-]+@[\w.-]+[^#$%|]{0,80}[#$%]\s*|[/~][^\s#$]{0,120}[#$]\s*|[#$%]+\s*)?"
    r"(?:for\s[^|]{1,80}?\bdo\s+)?(?:(?:docker|kubectl|podman|watch|ssh|timeout|sudo|time)\s[^|]{0,120}?)?"
    r"(?:/[\w.-]+)*/?(?P<said>npu-smi\s+(?:(?:info|set|upgrade|clear)\b(?!:)|-{1,2}\w).*|hccn_tool\s+-.*|npu-list\s*|"
    r"lspci(?:\s+[-|].*)?|cat\s+\S*(?:scend|hccn|version\.)\S*.*)"
)
_MOST = 2000  # commands told apart in one text; a log of a sixteen-card host holds some hundred
_KEY = re.compile(r"[A-Za-z][\w ()/.%+\[\]-]{0,63}")


@dataclass(frozen=True)
class Page:
    """`command` is what was typed, without prompt and folder, where it stands in the text."""

    lines: tuple[str, ...]
    command: str = ""
    body: str = ""
    cut: bool = False

    def has(self, *words: str) -> bool:
        """Whether one of the words stands in the text: a cheap look before a reader goes to work."""
        body = self.body
        for word in words:  # noqa: SIM110  any() takes three times as long, and this is asked twenty times of a text
            if word in body:
                return True
        return False

    @cached_property
    def lowered(self) -> str:
        """The text in small letters, for a cheap look before a pattern that takes both."""
        return self.body.lower()

    @property
    def asked(self) -> str:
        """The TYPE of `npu-smi info -t TYPE`, or the option of hccn_tool; empty where nothing tells."""
        found = re.search(r"\s-t\s+([\w-]+)", self.command) if self.command.startswith("npu-smi") else None
        return found[1] if found else ""


Reader = Callable[[Page], Document | None]


def page(lines: Iterable[str], command: str = "", cut: bool = False) -> Page:
    """A page of these lines."""
    kept = tuple(lines)
    return Page(kept, command, "\n".join(kept), cut)


def command_in(line: str) -> str | None:
    """The command of our tools that this line shows somebody typing; a table's banner or an error is none."""
    if not _named(line):
        return None
    found = _COMMAND.fullmatch(line)
    return " ".join(found["said"].split()).rstrip(";") if found else None


def _named(text: str) -> bool:
    return any(map(text.__contains__, _NAMES))


def pair(line: str, sign: str) -> tuple[str, str] | None:
    """A line's key and value, or None where no key stands before the sign.  (A URL's colon separates nothing.)"""
    key, found, value = line.partition(sign)
    key = key.strip()
    if not found or not _KEY.fullmatch(key) or value.startswith(("//", "::")):
        return None
    return key, value.strip()


def chapters(text: str) -> list[Page]:
    """The text in parts, each what follows one command; the first, with no command, is what stands before them all."""
    text = clean(text)
    lines = unstamped(text.split("\n"))
    parts: list[tuple[str, list[str]]] = [("", [])]
    if not _named(text):
        parts, lines = [("", lines)], []
    for line in lines:
        if len(parts) <= _MOST and (command := command_in(line)):
            parts.append((command, []))
        else:
            parts[-1][1].append(line)
    last = len(parts) - 1
    return [page(below, command, at == last and not text.endswith("\n")) for at, (command, below) in enumerate(parts)]
