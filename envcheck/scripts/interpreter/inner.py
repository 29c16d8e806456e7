"""bash -c '...' and ssh HOST '...': commands in a text, which are the script's as far as rules go."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from envcheck.core.lint.model import UNKNOWN, Block, Command, Script, Word
from envcheck.core.lint.wrappers import REMOTE, REMOTE_SHELLS
from envcheck.scripts.docker_commands import containers_of_commands
from envcheck.scripts.interpreter.walk import Walk
from envcheck.scripts.state import State, Value

_HOOKS = re.compile(r"\$\(\s*(\S*/)?(conda|mamba|micromamba|pyenv|ssh-agent|direnv|dircolors|brew|modulecmd)\b")
NESTED = 3  # shells in shells


def shell(walk: Walk, command: Command) -> None:
    number = _text(command)
    if not number or walk.nested >= NESTED or not _quoted(command.words[number].raw):
        return
    word, login = command.words[number], "l" in command.words[number - 1].text
    block = walk.block.inside(word.start + 1, word.raw[1:-1].encode())
    inner = Walk(block, _inside(walk.state.copy(), command), walk.handlers, walk.nested + 1)
    for each in inner.run().commands:
        piped = each.pipeline != 0
        made = replace(
            each,
            heredocs=(),
            uses=(),
            login=each.login or login,
            elsewhere=command.texts()[0].rpartition("/")[2] in REMOTE,
            everywhere=_everywhere(walk, command, number),
            order=len(walk.script.commands),
            pipeline=-each.pipeline if piped else command.pipeline,
            last_of_pipe=each.last_of_pipe if piped else command.last_of_pipe,
        )
        walk.script.commands.append(made)
    walk.script.names |= inner.script.names


def _inside(state: State, command: Command) -> State:
    """With the variables that docker run -e hands in."""
    for container in containers_of_commands([(Script(Block("bash", b"", ((0, 0),))), command)]):
        for name, value, word in container.environment:
            state.values[name] = Value(Word(value, word.start, word.end, soft=word.soft))
            state.exported.add(name)
    return state


def _everywhere(walk: Walk, command: Command, number: int) -> bool:
    """A loop's own host, or a list of them."""
    name = command.texts()[0].rpartition("/")[2]
    hosts = command.words[1:number]
    return name in REMOTE_SHELLS and (name != "ssh" or (walk.place.loop and not all(word.known for word in hosts)))


def _text(command: Command) -> int:
    """The number of the word that a shell will read as commands; 0: there is none."""
    texts = command.texts()
    for number, name in enumerate(texts[:-2]):
        told = name.rpartition("/")[2] in ("bash", "sh", "zsh") and re.fullmatch(r"-\w*c", texts[number + 1])
        over = texts[0] in REMOTE_SHELLS and number == len(texts) - 3 and " " in command.words[number + 2].raw
        if told or over:
            return number + 2
    return 0


def _quoted(raw: str) -> bool:
    return len(raw) > 2 and raw[0] in "'\"" and raw[-1] == raw[0]


def evaluated(walk: Walk, command: Command) -> None:
    """eval: this shell reads the words once more."""
    words = command.words[1:]
    text, raw = " ".join(word.text for word in words), words[0].raw if words else ""
    if not words or _HOOKS.search(" ".join(word.raw for word in words)):
        return
    if walk.nested >= NESTED:
        walk.script.opaque = True
        return
    as_written = len(words) == 1 and _quoted(raw) and raw[1] != "$" and "\\" not in raw.replace("\\\n", "")
    block = Block("bash", text.encode(), ((0, words[0].start),))
    if as_written:
        block = walk.block.inside(words[0].start + 1, raw[1:-1].encode())
    inner = Walk(block, walk.state, walk.handlers, walk.nested + 1)
    inner.bodies = dict(walk.bodies)
    place = None if as_written else (words[0].start, words[-1].end)
    found = inner.run().commands
    for each in found:
        made = replace(each, heredocs=(), uses=(), order=len(walk.script.commands), **_around(command, each))
        walk.script.commands.append(_moved(made, place) if place else made)
    # What begins with something unknown may be an assignment as well.
    walk.script.opaque |= inner.script.opaque or not found or not all(each.words[0].known for each in found)
    walk.script.names |= inner.script.names
    walk.script.loose += [place] if place else []


def _around(command: Command, each: Command) -> dict[str, Any]:
    """What the statement around it makes of it."""
    if each.pipeline:
        return {"pipeline": -each.pipeline}
    return {"pipeline": command.pipeline, "last_of_pipe": command.last_of_pipe, "branch": command.branch or each.branch,
            "guarded": command.guarded or each.guarded, "lenient": command.lenient or each.lenient,
            "background": command.background or each.background, "function": command.function}  # fmt: skip


def _moved(command: Command, place: tuple[int, int]) -> Command:
    """At the place of the words that were put together to it; one of them that is not known may be several."""

    def there(word: Word) -> Word:
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
