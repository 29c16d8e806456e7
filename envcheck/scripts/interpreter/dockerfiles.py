"""Dockerfiles: base images, variables, and the shell commands of their steps.

ENV applies from its line on, ARG may be overridden from outside, each RUN is a separate shell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import UNKNOWN, ShellCommand, ShellScript, ShellWord, SourceBlock
from envcheck.scripts.interpreter.embedded_shell import ShellPieces, make_cut_script, walk_container_shell
from envcheck.scripts.interpreter.instructions import Instruction, parse_exec_form, read_shell_text, split_instructions
from envcheck.scripts.shell_state import ShellState, ShellValue

INSTRUCTIONS = 1000
# Predefined ARGs of every build: proxies and platform.
_GIVEN = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass
class DockerfileBuild:
    """The state while a Dockerfile is read; `stages` are the names that FROM assigns."""

    state: ShellState = field(default_factory=ShellState)
    arguments: ShellState = field(default_factory=ShellState)  # ARG before the first FROM
    stages: set[str] = field(default_factory=set)
    scripts: list[ShellScript] = field(default_factory=list)
    steps: list[ShellScript] = field(default_factory=list)
    containers: list[ScriptContainer] = field(default_factory=list)

    def add_shell(self, pieces: ShellPieces, at: int, state: ShellState) -> ShellScript:
        """Interpret shell text with this state, and record its script."""
        script = walk_container_shell(pieces.make_block(at), state)
        self.scripts.append(script)
        return script


def read_dockerfile(block: SourceBlock) -> DockerfileBuild:
    """Return the images, scripts and containers of a Dockerfile."""
    build = DockerfileBuild()
    for name in _GIVEN:
        build.arguments.assign_value(name, ShellValue(ShellWord(UNKNOWN, block.map_to_file(0), block.map_to_file(0))))
    build.state = build.arguments.copy()
    for number, instruction in enumerate(split_instructions(block)):
        if number == INSTRUCTIONS:
            build.scripts.append(make_cut_script(instruction.start))
            break
        if handler := _READERS.get(instruction.name):
            handler(build, instruction)
    return build


def _apply_from(build: DockerfileBuild, given: Instruction) -> None:
    """FROM [--platform=P] IMAGE [AS STAGE]"""
    build.state = build.arguments.copy()
    script = walk_container_shell(given.make_pieces(b"FROM ").make_block(given.start), build.arguments.copy())
    words = script.commands[0].words[1:] if script.commands else ()
    options = tuple(
        ("--platform", replace(word, text=word.text.partition("=")[2]))
        for word in words
        if word.text.startswith("--platform=")
    )
    plain = [word for word in words if not word.text.startswith("--")]
    image = plain[0] if plain else None
    if image is not None and image.text not in {*build.stages, "scratch"}:
        build.containers.append(ScriptContainer(ShellCommand((), given.start, given.end), image, options, partial=True))
    if len(plain) > 2 and plain[1].text.upper() == "AS":
        build.stages.add(plain[2].text)


def _apply_arg(build: DockerfileBuild, given: Instruction) -> None:
    raw = b" ".join(raw for _, raw in given.parts)
    for name, default in re.findall(rb"([A-Za-z_]\w*)(=)?", raw)[:1]:
        state = build.state if build.containers else build.arguments
        if not default:
            state.declare_name(name.decode(), ShellValue(ShellWord(UNKNOWN, given.start, given.end)))
            continue
        build.add_shell(given.make_pieces(), given.start, state)
        value = state.values.get(name.decode())
        if value is not None:
            state.assign_value(name.decode(), ShellValue(replace(value.word, soft=True)))
    if not build.containers:
        build.state = build.arguments.copy()


def _apply_env(build: DockerfileBuild, given: Instruction) -> None:
    """ENV A=1 B=2, and the old form ENV A rest-of-line."""
    at, first = given.parts[0]
    old = re.match(rb"([A-Za-z_]\w*)[ \t]+(?![ \t=])([^\n\\]*)$", first.rstrip(b"\n"))
    pieces = given.make_pieces(b"export ")
    if old and len(given.parts) == 1:
        pieces = ShellPieces()
        pieces.add_raw(b"export ", at)
        pieces.add_raw(old[1] + b"=", at)
        pieces.add_raw(b"'" + old[2].replace(b"'", b"") + b"'", at + old.start(2) - 1)
    build.add_shell(pieces, at, build.state)


def _apply_shell(build: DockerfileBuild, given: Instruction) -> None:
    """SHELL ["/bin/bash", "-o", "pipefail", "-c"]"""
    argv = parse_exec_form(given) or []
    for option in ("pipefail", "errexit"):
        if option in argv or (option == "errexit" and any(re.fullmatch(r"-\w*e\w*", each) for each in argv)):
            build.state.shell.add(option)


def _apply_run(build: DockerfileBuild, given: Instruction) -> None:
    build.steps.append(build.add_shell(read_shell_text(given), given.start, build.state.copy()))


def _apply_start(build: DockerfileBuild, given: Instruction) -> None:
    """CMD, ENTRYPOINT: what the container starts."""
    build.add_shell(read_shell_text(given), given.start, build.state.copy())


_READERS: dict[str, Callable[[DockerfileBuild, Instruction], None]] = {
    "FROM": _apply_from,
    "ARG": _apply_arg,
    "ENV": _apply_env,
    "SHELL": _apply_shell,
    "RUN": _apply_run,
    "CMD": _apply_start,
    "ENTRYPOINT": _apply_start,
}
