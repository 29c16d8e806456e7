"""Prepares pasted text for the parsers of npu-smi and related tools: its lines, and the commands among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from envcheck.core.model import Document
from envcheck.core.tool_text import LINE_LIMIT
from probes.paste.line_decorations import clean_characters, strip_log_stamps

TOOL = "npu-smi"

_NAMES = ("npu-smi", "hccn_tool", "npu-list", "lspci", "cat ")
_COMMAND = re.compile(
    r"\s*(?:\([^()]{1,60}\)\s*)*"  # (base), the conda environment
    r"(?:\[[^\]]{1,80}\]\s*(?:[#$%>]\s*)?|[\w.-]+@[\w.-]+[^#$%|]{0,80}[#$%]\s*|[/~][^\s#$]{0,120}[#$]\s*|[#$%]+\s*)?"
    r"(?:for\s[^|]{1,80}?\bdo\s+)?(?:(?:docker|kubectl|podman|watch|ssh|timeout|sudo|time)\s[^|]{0,120}?)?"
    r"(?:/[\w.-]+)*/?(?P<command>npu-smi\s+(?:(?:info|set|upgrade|clear)\b(?!:)|-{1,2}\w).*|hccn_tool\s+-.*|npu-list\s*|"
    r"lspci(?:\s+[-|].*)?|cat\s+\S*(?:scend|hccn|version\.)\S*.*)"
)
_LOOP = re.compile(
    r"\bfor\s+\w+\s+in\s+(?:(?:\{|[$`(]{1,2}seq\s+)(?P<first>\d{1,4})(?:\.\.|\s+)(?P<last>\d{1,4})[`)}]"
    r"|(?P<words>\d{1,6}(?:\s+\d{1,6}){0,99}))\s*;"
)
_LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_MOST = 2000  # commands that are separated in one text; a log of a host with 16 cards has about a hundred
_KEY = re.compile(r"[A-Za-z][\w ()/.%+\[\]-]{0,63}")


@dataclass(frozen=True)
class OutputPage:
    """One part of the text; `command` is the command before it, without prompt and folder, "" if there is none.

    `numbers` are the numbers of the lines in the whole text; `ids` those over which a shell's loop runs the command.
    """

    lines: tuple[str, ...]
    command: str = ""
    body: str = ""
    cut: bool = False
    numbers: Sequence[int] = ()
    ids: tuple[int, ...] = ()

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

    @cached_property
    def query_type(self) -> str:
        """The TYPE of `npu-smi info -t TYPE`; empty without one."""
        found = re.search(r"\s-t\s+([\w-]+)", self.command) if self.command.startswith("npu-smi") else None
        return found[1] if found else ""


Reader = Callable[[OutputPage], Document | None]


def make_page(
    lines: Iterable[str],
    command: str = "",
    cut: bool = False,
    numbers: Sequence[int] = (),
    ids: tuple[int, ...] = (),
) -> OutputPage:
    """Return a page with these lines; without numbers, they are those of the whole text."""
    kept = tuple(lines)
    return OutputPage(kept, command, "\n".join(kept), cut, numbers or range(1, len(kept) + 1), ids)


def join_pages(pages: Sequence[OutputPage]) -> OutputPage:
    """Return the lines of all pages as the output of the first command that has one, else of the first command."""
    asked = [page for page in pages if page.command] or [*pages]
    first = next((page for page in asked if page.body.strip()), asked[0])
    lines = [line for page in pages for line in page.lines]
    numbers = [number for page in pages for number in page.numbers]
    return make_page(lines, first.command, pages[-1].cut, numbers, first.ids)


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
    before, found, value = line.partition(sign)
    key = _read_key(before) if found else ""
    return (key, value.strip()) if key and not value.startswith(("//", "::")) else None


@lru_cache(maxsize=2048)  # many answers have the same keys
def _read_key(text: str) -> str:
    """Return the key that a text with blanks around it is, or ""."""
    key = text.strip()
    return key if _KEY.fullmatch(key) else ""


def split_by_command(text: str) -> list[OutputPage]:
    """Return the text split into the outputs of its commands; the first part is the text before the first command."""
    broken = "<" in text and _LINE_BREAK.search(text) is not None
    text = clean_characters(text, len(text)) if broken else clean_characters(text)
    lines = list(enumerate(strip_log_stamps(text.split("\n")), 1))
    if broken:
        lines = [(number, piece[:LINE_LIMIT]) for number, line in lines for piece in _LINE_BREAK.split(line)]
    lines = _drop_double_spacing(lines)
    parts: list[tuple[str, tuple[int, ...], list[tuple[int, str]]]] = [("", (), [])]
    named = [name for name in _NAMES if name in text]
    likely = {number for number, line in lines for name in named if name in line}
    if not likely:
        parts, lines = [("", (), lines)], []
    for number, line in lines:
        if number in likely and len(parts) <= _MOST and (command := find_command(line)):
            parts.append((command, _read_loop(line), []))
        else:
            parts[-1][2].append((number, line))
    cut = not text.endswith("\n")
    return [
        make_page([line for _, line in own], command, cut and own is parts[-1][2], [number for number, _ in own], ids)
        for command, ids, own in parts
    ]


def _drop_double_spacing(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines without the blank ones if a paste put one between any two: they separate nothing."""
    was_full = False
    for _number, line in lines:
        is_full = bool(line.strip())
        if is_full and was_full:
            return lines
        was_full = is_full
    full = [each for each in lines if each[1].strip()]
    return full if len(full) > 3 else lines


def _read_loop(line: str) -> tuple[int, ...]:
    """Return the numbers over which the loop around a command runs; empty without a loop, or if they are unknown."""
    found = _LOOP.search(line)
    if not found:
        return ()
    if found["words"]:
        return tuple(int(word) for word in found["words"].split())
    return tuple(range(int(found["first"]), min(int(found["last"]), _MOST) + 1))
