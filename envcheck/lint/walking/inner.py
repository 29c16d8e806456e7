"""bash -c '...' and ssh HOST '...': commands in a text, which are the script's as far as rules go."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.lint.model import Command, Word
from envcheck.lint.walking.walk import Walk

REMOTE = ("docker", "podman", "nerdctl", "kubectl", "ssh", "pdsh")
NESTED = 3  # shells in shells


def shell(walk: Walk, command: Command) -> None:
    word = _text(command)
    if word is None or walk.nested >= NESTED or not _quoted(word.raw):
        return
    block = walk.block.inside(word.start + 1, word.raw[1:-1].encode())
    inner = Walk(block, walk.state.copy(), walk.handlers, walk.nested + 1)
    for each in inner.run().commands:
        piped = each.pipeline != 0
        made = replace(
            each,
            heredocs=(),
            uses=(),
            elsewhere=command.texts()[0].rpartition("/")[2] in REMOTE,
            order=len(walk.script.commands),
            pipeline=-each.pipeline if piped else command.pipeline,
            last_of_pipe=each.last_of_pipe if piped else command.last_of_pipe,
        )
        walk.script.commands.append(made)
    walk.script.names |= inner.script.names


def _text(command: Command) -> Word | None:
    """The word that a shell will read as commands."""
    texts = command.texts()
    for number, name in enumerate(texts[:-2]):
        told = name.rpartition("/")[2] in ("bash", "sh", "zsh") and re.fullmatch(r"-\w*c", texts[number + 1])
        over = texts[0] == "ssh" and number == len(texts) - 3 and " " in command.words[number + 2].raw
        if told or over:
            return command.words[number + 2]
    return None


def _quoted(raw: str) -> bool:
    return len(raw) > 2 and raw[0] in "'\"" and raw[-1] == raw[0]
