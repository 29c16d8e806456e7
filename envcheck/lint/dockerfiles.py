"""Dockerfiles: the images they build on, what they set, and the shell of their steps.

ENV holds from its line on, ARG may be replaced from outside, each RUN is a shell of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from envcheck.lint.containers import Container
from envcheck.lint.model import UNKNOWN, Block, Command, Script, Word
from envcheck.lint.pieces import Pieces, inside, shell_of
from envcheck.lint.state import State, Value

INSTRUCTIONS = 1000
# What every build may be given, and what it is told of its platform.
_GIVEN = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
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


@dataclass
class Build:
    """What is read so far; `stages` are names that a FROM gives."""

    state: State = field(default_factory=State)
    arguments: State = field(default_factory=State)  # ARG before the first FROM
    stages: set[str] = field(default_factory=set)
    scripts: list[Script] = field(default_factory=list)
    steps: list[Script] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)

    def shell(self, pieces: Pieces, at: int, state: State) -> Script:
        script = inside(pieces.block(at), state)
        self.scripts.append(script)
        return script


def read(block: Block) -> Build:
    build = Build()
    for name in _GIVEN:
        build.arguments.values[name] = Value(Word(UNKNOWN, block.at(0), block.at(0)))
    build.state = build.arguments.copy()
    for number, instruction in enumerate(instructions(block)):
        handler = _READERS.get(instruction.name)
        if handler is not None and number < INSTRUCTIONS:
            handler(build, instruction)
    return build


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


def _from(build: Build, given: Instruction) -> None:
    """FROM [--platform=P] IMAGE [AS STAGE]"""
    build.state = build.arguments.copy()
    script = inside(given.pieces(b"FROM ").block(given.start), build.arguments.copy())
    words = script.commands[0].words[1:] if script.commands else ()
    options = tuple(
        ("--platform", replace(word, text=word.text.partition("=")[2]))
        for word in words
        if word.text.startswith("--platform=")
    )
    plain = [word for word in words if not word.text.startswith("--")]
    image = plain[0] if plain else None
    if image is not None and image.text not in {*build.stages, "scratch"}:
        build.containers.append(Container(Command((), given.start, given.end), image, options, partial=True))
    if len(plain) > 2 and plain[1].text.upper() == "AS":
        build.stages.add(plain[2].text)


def _argument(build: Build, given: Instruction) -> None:
    raw = b" ".join(raw for _, raw in given.parts)
    for name, default in re.findall(rb"([A-Za-z_]\w*)(=)?", raw)[:1]:
        state = build.state if build.containers else build.arguments
        if not default:
            state.values.setdefault(name.decode(), Value(Word(UNKNOWN, given.start, given.end)))
            continue
        build.shell(given.pieces(), given.start, state)
        value = state.values.get(name.decode())
        if value is not None:
            state.values[name.decode()] = Value(replace(value.word, soft=True))
    if not build.containers:
        build.state = build.arguments.copy()


def _environment(build: Build, given: Instruction) -> None:
    """ENV A=1 B=2, and the old ENV A the rest."""
    at, first = given.parts[0]
    old = re.match(rb"([A-Za-z_]\w*)[ \t]+(?!=)([^\n\\]*)$", first.rstrip(b"\n"))
    pieces = given.pieces(b"export ")
    if old and len(given.parts) == 1:
        pieces = Pieces()
        pieces.add(b"export ", at)
        pieces.add(old[1] + b"=", at)
        pieces.add(b"'" + old[2].replace(b"'", b"") + b"'", at + old.start(2) - 1)
    build.shell(pieces, at, build.state)


def _shell(build: Build, given: Instruction) -> None:
    """SHELL ["/bin/bash", "-o", "pipefail", "-c"]"""
    argv = _list(given) or []
    for option in ("pipefail", "errexit"):
        if option in argv or (option == "errexit" and any(re.fullmatch(r"-\w*e\w*", each) for each in argv)):
            build.state.shell.add(option)


def _list(given: Instruction) -> list[str] | None:
    """The words of the form in brackets; None for a shell's."""
    raw = b"".join(re.sub(rb"\\\n$", b"\n", raw) for _, raw in given.parts)
    if not raw.lstrip().startswith(b"["):
        return None
    try:
        found = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return [str(each) for each in found] if isinstance(found, list) else None


def _pieces(given: Instruction) -> Pieces:
    """The shell of an instruction in either form; a here-document alone is the script itself."""
    words = _list(given)
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


def _run(build: Build, given: Instruction) -> None:
    build.steps.append(build.shell(_pieces(given), given.start, build.state.copy()))


def _start(build: Build, given: Instruction) -> None:
    """CMD, ENTRYPOINT: what the container starts."""
    build.shell(_pieces(given), given.start, build.state.copy())


_READERS: dict[str, Callable[[Build, Instruction], None]] = {
    "FROM": _from,
    "ARG": _argument,
    "ENV": _environment,
    "SHELL": _shell,
    "RUN": _run,
    "CMD": _start,
    "ENTRYPOINT": _start,
}
