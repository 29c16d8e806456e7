"""bash -c '...' and ssh HOST '...': commands inside a text, which rules treat as part of the script."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from envcheck.core.lint.script_model import UNKNOWN, ShellCommand, ShellScript, ShellWord, SourceBlock
from envcheck.core.lint.wrappers import REMOTE, REMOTE_SHELLS
from envcheck.scripts.docker_commands import find_containers
from envcheck.scripts.interpreter.shell_walk import ShellWalk
from envcheck.scripts.shell_state import ShellState, ShellValue

_HOOKS = re.compile(r"\$\(\s*(\S*/)?(conda|mamba|micromamba|pyenv|ssh-agent|direnv|dircolors|brew|modulecmd)\b")
NESTED = 3  # shells in shells


def walk_nested_shell(walk: ShellWalk, command: ShellCommand) -> None:
    """Interpret the text that a command passes to another shell, and record its commands."""
    number = _find_shell_text(command)
    if not number or walk.nested >= NESTED or not _is_quoted(command.words[number].raw):
        return
    word, login = command.words[number], "l" in command.words[number - 1].text
    block = walk.block.extract_block(word.start + 1, word.raw[1:-1].encode())
    inner = walk.open_nested(block, _add_container_variables(walk.state.copy(), command))
    for each in inner.walk_block().commands:
        piped = each.pipeline != 0
        made = replace(
            each,
            heredocs=(),
            uses=(),
            login=each.login or login,
            elsewhere=command.list_texts()[0].rpartition("/")[2] in REMOTE,
            everywhere=_runs_on_every_host(walk, command, number),
            order=len(walk.script.commands),
            pipeline=-each.pipeline if piped else command.pipeline,
            last_of_pipe=each.last_of_pipe if piped else command.last_of_pipe,
        )
        walk.script.commands.append(made)
    walk.script.names |= inner.script.names


def _add_container_variables(state: ShellState, command: ShellCommand) -> ShellState:
    """Add the variables that docker run -e passes; $0 is no script there."""
    state.surroundings = replace(state.surroundings, script="", file="")
    for container in find_containers([(ShellScript(SourceBlock("bash", b"", ((0, 0),))), command)]):
        for name, value, word in container.environment:
            state.assign_value(name, ShellValue(ShellWord(value, word.start, word.end, soft=word.soft)))
            state.export_name(name)
    return state


def _runs_on_every_host(walk: ShellWalk, command: ShellCommand, number: int) -> bool:
    """Whether it runs on each host: in a loop over hosts, or with a host list."""
    name = command.list_texts()[0].rpartition("/")[2]
    hosts = command.words[1:number]
    return name in REMOTE_SHELLS and (name != "ssh" or (walk.place.loop and not all(word.is_known for word in hosts)))


def _find_shell_text(command: ShellCommand) -> int:
    """The index of the word that a shell reads as commands; 0 for none."""
    texts = command.list_texts()
    for number, name in enumerate(texts[:-2]):
        told = name.rpartition("/")[2] in ("bash", "sh", "zsh") and re.fullmatch(r"-\w*c", texts[number + 1])
        over = texts[0] in REMOTE_SHELLS and number == len(texts) - 3 and " " in command.words[number + 2].raw
        if told or over:
            return number + 2
    return 0


def _is_quoted(raw: str) -> bool:
    return len(raw) > 2 and raw[0] in "'\"" and raw[-1] == raw[0]


def walk_eval(walk: ShellWalk, command: ShellCommand) -> None:
    """Interpret eval: this shell reads the words once more."""
    words = command.words[1:]
    text, raw = " ".join(word.text for word in words), words[0].raw if words else ""
    if not words or _HOOKS.search(" ".join(word.raw for word in words)):
        return
    if walk.nested >= NESTED:
        walk.script.opaque = True
        return
    as_written = len(words) == 1 and _is_quoted(raw) and raw[1] != "$" and "\\" not in raw.replace("\\\n", "")
    block = SourceBlock("bash", text.encode(), ((0, words[0].start),))
    if as_written:
        block = walk.block.extract_block(words[0].start + 1, raw[1:-1].encode())
    inner = walk.open_nested(block, walk.state)
    inner.bodies, inner.called = dict(walk.bodies), set(walk.bodies)  # those that are never called are visited outside
    place = None if as_written else (words[0].start, words[-1].end)
    found = inner.walk_block().commands
    for each in found:
        made = replace(each, heredocs=(), uses=(), order=len(walk.script.commands), **_inherit_place(command, each))
        walk.script.commands.append(_move_command(made, place) if place else made)
    # A text that begins with an unknown word may also be an assignment.
    walk.script.opaque |= inner.script.opaque or not found or not all(each.words[0].is_known for each in found)
    walk.script.names |= inner.script.names
    walk.script.loose += [place] if place else []


def _inherit_place(command: ShellCommand, each: ShellCommand) -> dict[str, Any]:
    """Apply the properties of the surrounding statement."""
    if each.pipeline:
        return {"pipeline": -each.pipeline}
    return {"pipeline": command.pipeline, "last_of_pipe": command.last_of_pipe, "branch": command.branch or each.branch,
            "guarded": command.guarded or each.guarded, "lenient": command.lenient or each.lenient,
            "background": command.background or each.background, "function": command.function}  # fmt: skip


def _move_command(command: ShellCommand, place: tuple[int, int]) -> ShellCommand:
    """Move a command to the place of the words from which its text was built; an unknown word may be several."""

    def there(word: ShellWord) -> ShellWord:
        return replace(word, start=place[0], end=place[1], many=word.many or word.text == UNKNOWN)

    redirects = (
        replace(each, start=place[0], end=place[1], target=there(each.target) if each.target else None)
        for each in command.redirects
    )
    environment = {name: there(word) if place[0] <= word.start else word for name, word in command.environment.items()}
    return replace(
        command,
        words=tuple(map(there, command.words)),
        start=place[0],
        end=place[1],
        redirects=tuple(redirects),
        environment=environment,
    )
