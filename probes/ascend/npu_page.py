"""Prepares pasted text for the parsers of npu-smi and related tools: its lines, and the commands among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from envcheck.core.model import Document
from envcheck.core.tool_text import clean_paste, strip_log_stamps

TOOL = "npu-smi"

_NAMES = ("npu-smi", "hccn_tool", "npu-list", "lspci", "cat ")
_COMMAND = re.compile(
    r"\s*(?:\([^()]{1,60}\)\s*)*"  # (base), the conda environment
    r"(?:\[[^\]]{1,80}\]\s*[#$%>]?\s*|[\w.-]+@[\w.-]+[^#$%|]{0,80}[#$%]\s*|[/~][^\s#$]{0,120}[#$]\s*|[#$%]+\s*)?"
    r"(?:for\s[^|]{1,80}?\bdo\s+)?(?:(?:docker|kubectl|podman|watch|ssh|timeout|sudo|time)\s[^|]{0,120}?)?"
    r"(?:/[\w.-]+)*/?(?P<command>npu-smi\s+(?:(?:info|set|upgrade|clear)\b(?!:)|-{1,2}\w).*|hccn_tool\s+-.*|npu-list\s*|"
    r"lspci(?:\s+[-|].*)?|cat\s+\S*(?:scend|hccn|version\.)\S*.*)"
)
_MOST = 2000  # commands that are separated in one text; a log of a host with 16 cards has about a hundred
_KEY = re.compile(r"[A-Za-z][\w ()/.%+\[\]-]{0,63}")


@dataclass(frozen=True)
class OutputPage:
    """One part of the text; `command` is the command before it, without prompt and folder, "" if there is none."""

    lines: tuple[str, ...]
    command: str = ""
    body: str = ""
    cut: bool = False

    def has_any(self, *words: str) -> bool:
        """Return whether the text contains one of the words: a cheap test before a parser runs."""
        body = self.body
        for word in words:  # noqa: SIM110  any() takes three times as long, and this runs twenty times per text
            if word in body:
                return True
        return False

    @cached_property
    def lowercase_text(self) -> str:
        """The text in lower case, for a cheap test before a case-insensitive pattern."""
        return self.body.lower()

    @property
    def query_type(self) -> str:
        """The TYPE of `npu-smi info -t TYPE`; empty without one."""
        found = re.search(r"\s-t\s+([\w-]+)", self.command) if self.command.startswith("npu-smi") else None
        return found[1] if found else ""


Reader = Callable[[OutputPage], Document | None]


def make_page(lines: Iterable[str], command: str = "", cut: bool = False) -> OutputPage:
    """Return a page with these lines."""
    kept = tuple(lines)
    return OutputPage(kept, command, "\n".join(kept), cut)


def find_command(line: str) -> str | None:
    """Return the command in a line that shows a prompt with one of our tools; a table's banner or an error is not
    one."""
    if not _names_tool(line):
        return None
    found = _COMMAND.fullmatch(line)
    return " ".join(found["command"].split()).rstrip(";") if found else None


def _names_tool(text: str) -> bool:
    return any(map(text.__contains__, _NAMES))


def parse_pair(line: str, sign: str) -> tuple[str, str] | None:
    """Return the key and the value of a line, or None if there is no key before the sign; `//` after it is a URL."""
    key, found, value = line.partition(sign)
    key = key.strip()
    if not found or not _KEY.fullmatch(key) or value.startswith(("//", "::")):
        return None
    return key, value.strip()


def split_by_command(text: str) -> list[OutputPage]:
    """Return the text split into the outputs of its commands; the first part is the text before the first command."""
    text = clean_paste(text)
    lines = strip_log_stamps(text.split("\n"))
    parts: list[tuple[str, list[str]]] = [("", [])]
    if not _names_tool(text):
        parts, lines = [("", lines)], []
    for line in lines:
        if len(parts) <= _MOST and (command := find_command(line)):
            parts.append((command, []))
        else:
            parts[-1][1].append(line)
    last = len(parts) - 1
    return [
        make_page(below, command, at == last and not text.endswith("\n")) for at, (command, below) in enumerate(parts)
    ]
