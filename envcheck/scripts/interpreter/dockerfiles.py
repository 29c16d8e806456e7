"""Dockerfiles: the images they build on, what they set, and the shell of their steps.

ENV holds from its line on, ARG may be replaced from outside, each RUN is a shell of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from envcheck.core.lint.model import UNKNOWN, Block, Command, Script, Word
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.scripts.interpreter.embedded_shell import Pieces, inside
from envcheck.scripts.interpreter.instructions import Instruction, instructions, listed, shell_text
from envcheck.scripts.state import State, Value

INSTRUCTIONS = 1000
# What every build may be given, and what it is told of its platform.
_GIVEN = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass
class Build:
    """What is read so far; `stages` are names that a FROM gives."""

    state: State = field(default_factory=State)
    arguments: State = field(default_factory=State)  # ARG before the first FROM
    stages: set[str] = field(default_factory=set)
    scripts: list[Script] = field(default_factory=list)
    steps: list[Script] = field(default_factory=list)
    containers: list[ScriptContainer] = field(default_factory=list)

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
        build.containers.append(ScriptContainer(Command((), given.start, given.end), image, options, partial=True))
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
    argv = listed(given) or []
    for option in ("pipefail", "errexit"):
        if option in argv or (option == "errexit" and any(re.fullmatch(r"-\w*e\w*", each) for each in argv)):
            build.state.shell.add(option)


def _run(build: Build, given: Instruction) -> None:
    build.steps.append(build.shell(shell_text(given), given.start, build.state.copy()))


def _start(build: Build, given: Instruction) -> None:
    """CMD, ENTRYPOINT: what the container starts."""
    build.shell(shell_text(given), given.start, build.state.copy())


_READERS: dict[str, Callable[[Build, Instruction], None]] = {
    "FROM": _from,
    "ARG": _argument,
    "ENV": _environment,
    "SHELL": _shell,
    "RUN": _run,
    "CMD": _start,
    "ENTRYPOINT": _start,
}
