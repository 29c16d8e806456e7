"""bash -c '...' and ssh HOST '...': commands in a text, which are the script's as far as rules go."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.lint.model import Command
from envcheck.lint.walking.walk import Walk

REMOTE = ("docker", "podman", "nerdctl", "kubectl", "ssh", "pdsh")
NESTED = 3  # shells in shells


def shell(walk: Walk, command: Command) -> None:
    number = _text(command)
    if not number or walk.nested >= NESTED or not _quoted(command.words[number].raw):
        return
    word, login = command.words[number], "l" in command.words[number - 1].text
    block = walk.block.inside(word.start + 1, word.raw[1:-1].encode())
    inner = Walk(block, walk.state.copy(), walk.handlers, walk.nested + 1)
    for each in inner.run().commands:
        piped = each.pipeline != 0
        made = replace(
            each,
            heredocs=(),
            uses=(),
            login=each.login or login,
            elsewhere=command.texts()[0].rpartition("/")[2] in REMOTE,
            order=len(walk.script.commands),
            pipeline=-each.pipeline if piped else command.pipeline,
            last_of_pipe=each.last_of_pipe if piped else command.last_of_pipe,
        )
        walk.script.commands.append(made)
    walk.script.names |= inner.script.names


def _text(command: Command) -> int:
    """The number of the word that a shell will read as commands; 0: there is none."""
    texts = command.texts()
    for number, name in enumerate(texts[:-2]):
        told = name.rpartition("/")[2] in ("bash", "sh", "zsh") and re.fullmatch(r"-\w*c", texts[number + 1])
        over = texts[0] == "ssh" and number == len(texts) - 3 and " " in command.words[number + 2].raw
        if told or over:
            return number + 2
    return 0


def _quoted(raw: str) -> bool:
    return len(raw) > 2 and raw[0] in "'\"" and raw[-1] == raw[0]
