"""The instructions of a Dockerfile: lines without comments, here-documents, and the two forms of a command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.core.lint.model import Block
from envcheck.scripts.interpreter.embedded_shell import Pieces, shell_of

_HEREDOC = re.compile(rb"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_FLAG = re.compile(rb"--[a-z]+(?:=\S*)?[ \t]*")


@dataclass(frozen=True)
class Instruction:
    """`parts` are (place in the file, bytes): its lines without the comments between them."""

    name: str
    parts: tuple[tuple[int, bytes], ...]

    @property
    def start(self) -> int:
        return self.parts[0][0] if self.parts else 0

    @property
    def end(self) -> int:
        at, raw = self.parts[-1] if self.parts else (0, b"")
        return at + len(raw.rstrip())

    def pieces(self, before: bytes = b"") -> Pieces:
        made = Pieces()
        made.add(before, self.start)
        for at, raw in self.parts:
            made.add(raw, at)
        return made


def instructions(block: Block) -> Iterator[Instruction]:
    """Each with the lines that it is continued on, and those of its here-documents."""
    lines, offset = block.raw.splitlines(keepends=True), 0
    parts: list[tuple[int, bytes]] = []
    waiting: list[bytes] = []  # ends of here-documents
    for line in lines:
        at, offset = block.at(offset), offset + len(line)
        bare = line.strip()
        if waiting:
            parts.append((at, line))
            waiting = waiting[bare == waiting[0] :]
        elif not bare or bare.startswith(b"#"):
            continue
        else:
            parts.append((at, line.replace(b"\r\n", b"\n")))
            waiting = [found[1] for found in _HEREDOC.findall(line)] if _runs(parts) else []
        if not waiting and (not bare.endswith(b"\\") or len(parts) == 0):
            yield _instruction(parts)
            parts = []
    if parts:
        yield _instruction(parts)


def _runs(parts: list[tuple[int, bytes]]) -> bool:
    return bool(re.match(rb"\s*(?:RUN|COPY|ADD)\s", parts[0][1], re.IGNORECASE))


def _instruction(parts: list[tuple[int, bytes]]) -> Instruction:
    at, first = parts[0]
    found = re.match(rb"\s*([A-Za-z]+)[ \t]*", first)
    length = found.end() if found else 0
    name = found[1].decode().upper() if found else ""
    rest = first[length:]
    while name in ("RUN", "FROM", "COPY", "ADD") and (flag := _FLAG.match(rest)) and name != "FROM":
        length, rest = length + flag.end(), rest[flag.end() :]
    return Instruction(name, ((at + length, rest), *parts[1:]))


def listed(given: Instruction) -> list[str] | None:
    """The words of the form in brackets; None for a shell's."""
    raw = b"".join(re.sub(rb"\\\n$", b"\n", raw) for _, raw in given.parts)
    if not raw.lstrip().startswith(b"["):
        return None
    try:
        found = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return [str(each) for each in found] if isinstance(found, list) else None


def shell_text(given: Instruction) -> Pieces:
    """The shell of an instruction in either form; a here-document alone is the script itself."""
    words = listed(given)
    if words is not None:
        return _of_list(given, words)
    first = given.parts[0][1].strip()
    if _HEREDOC.fullmatch(first) and len(given.parts) > 2:
        return Instruction(given.name, given.parts[1:-1]).pieces()
    return given.pieces()


def _of_list(given: Instruction, words: list[str]) -> Pieces:
    made, exact = Pieces(), True
    for number, word in enumerate(words):
        at, sure = _place(given, word)
        if shell_of(words[:number]) and number == len(words) - 1:
            made = Pieces()
            made.add(word.encode(), at)
        else:
            made.word(word.encode(), at)
        exact = exact and sure
    made.exact = made.exact and exact
    return made


def _place(given: Instruction, word: str) -> tuple[int, bool]:
    """Where the word stands, if it is written as it is meant, and whether it is."""
    for at, raw in given.parts:
        found = raw.find(f'"{word}"'.encode())
        if found >= 0:
            return at + found + 1, True
    return given.start, False
