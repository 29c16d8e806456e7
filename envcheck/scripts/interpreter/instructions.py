"""The instructions of a Dockerfile: lines without comments, here-documents, and the two forms of a command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.core.lint.script_model import SourceBlock
from envcheck.scripts.interpreter.embedded_shell import ShellPieces, starts_shell

_HEREDOC = re.compile(rb"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_FLAG = re.compile(rb"--[a-z]+(?:=\S*)?[ \t]*")


@dataclass(frozen=True)
class Instruction:
    """`parts` are (place in the file, bytes): its lines without the comments between them."""

    name: str
    parts: tuple[tuple[int, bytes], ...]

    @property
    def start(self) -> int:
        """The place of its arguments in the file."""
        return self.parts[0][0] if self.parts else 0

    @property
    def end(self) -> int:
        """The place after its last character."""
        at, raw = self.parts[-1] if self.parts else (0, b"")
        return at + len(raw.rstrip())

    def make_pieces(self, before: bytes = b"") -> ShellPieces:
        """Return its arguments as shell text, with `before` in front."""
        made = ShellPieces()
        made.add_raw(before, self.start)
        for at, raw in self.parts:
            made.add_raw(raw, at)
        return made


def split_instructions(block: SourceBlock) -> Iterator[Instruction]:
    """Yield each instruction with its continuation lines and here-documents."""
    lines, offset = block.raw.splitlines(keepends=True), 0
    parts: list[tuple[int, bytes]] = []
    waiting: list[bytes] = []  # ends of here-documents
    for line in lines:
        at, offset = block.map_to_file(offset), offset + len(line)
        bare = line.strip()
        if waiting:
            parts.append((at, line))
            waiting = waiting[bare == waiting[0] :]
        elif not bare or bare.startswith(b"#"):
            continue
        else:
            parts.append((at, line.replace(b"\r\n", b"\n")))
            waiting = [found[1] for found in _HEREDOC.findall(line)] if _may_hold_heredoc(parts) else []
        if not waiting and (not bare.endswith(b"\\") or len(parts) == 0):
            yield _parse_instruction(parts)
            parts = []
    if parts:
        yield _parse_instruction(parts)


def _may_hold_heredoc(parts: list[tuple[int, bytes]]) -> bool:
    return bool(re.match(rb"\s*(?:RUN|COPY|ADD)\s", parts[0][1], re.IGNORECASE))


def _parse_instruction(parts: list[tuple[int, bytes]]) -> Instruction:
    at, first = parts[0]
    found = re.match(rb"\s*([A-Za-z]+)[ \t]*", first)
    length = found.end() if found else 0
    name = found[1].decode().upper() if found else ""
    rest = first[length:]
    while name in ("RUN", "FROM", "COPY", "ADD") and (flag := _FLAG.match(rest)) and name != "FROM":
        length, rest = length + flag.end(), rest[flag.end() :]
    return Instruction(name, ((at + length, rest), *parts[1:]))


def parse_exec_form(given: Instruction) -> list[str] | None:
    """Return the words of the exec form, ["a", "b"]; None for the shell form."""
    raw = b"".join(re.sub(rb"\\\n$", b"\n", raw) for _, raw in given.parts)
    if not raw.lstrip().startswith(b"["):
        return None
    try:
        found = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return [str(each) for each in found] if isinstance(found, list) else None


def read_shell_text(given: Instruction) -> ShellPieces:
    """Return the shell text of either form; a here-document alone is the script itself."""
    words = parse_exec_form(given)
    if words is not None:
        return _join_exec_form(given, words)
    first = given.parts[0][1].strip()
    if _HEREDOC.fullmatch(first) and len(given.parts) > 2:
        return Instruction(given.name, given.parts[1:-1]).make_pieces()
    return given.make_pieces()


def _join_exec_form(given: Instruction, words: list[str]) -> ShellPieces:
    made, exact = ShellPieces(), True
    for number, word in enumerate(words):
        at, sure = _find_place(given, word)
        if starts_shell(words[:number]) and number == len(words) - 1:
            made = ShellPieces()
            made.add_raw(word.encode(), at)
        else:
            made.add_word(word.encode(), at)
        exact = exact and sure
    made.exact = made.exact and exact
    return made


def _find_place(given: Instruction, word: str) -> tuple[int, bool]:
    """The place of the word, and whether it is written without escapes."""
    for at, raw in given.parts:
        found = raw.find(f'"{word}"'.encode())
        if found >= 0:
            return at + found + 1, True
    return given.start, False
