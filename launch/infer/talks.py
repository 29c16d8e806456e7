"""The table of talks.toml: how each program asks and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import own_record
from launch.rendering.schema import Versions, fits

LONGEST = 3000  # bytes of a question: a terminal takes lines of 4095


@dataclass(frozen=True)
class ChatProgram:
    """An entry of talks.toml, whose head explains the fields."""

    words: tuple[str, ...]
    prompt: str
    leave: str
    source: str
    package: str = ""
    versions: str = ""
    reply: str = ""
    rule: str = ""
    commands: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    served: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@cache
def talks() -> tuple[ChatProgram, ...]:
    return own_record(_TalksFile, Path(__file__).with_name("talks.toml")).talks


@dataclass(frozen=True)
class _TalksFile:
    talks: tuple[ChatProgram, ...]


def of(argv: Sequence[str], installed: Versions) -> ChatProgram | None:
    """The talk of the program in a command, by the version that is installed; unknown versions fit."""
    words = [PurePath(word).name for word in argv]
    for talk in talks():
        if _stand(talk.words, words) and fits(installed.get(talk.package), talk.versions):
            return talk
    return None


def _stand(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """One after the other, with anything between."""
    left = iter(words)
    return all(word in left for word in wanted)


def question(text: str, talk: ChatProgram) -> str:
    """As it is typed; UsageError where it would be taken for something else."""
    said = text.strip()
    if not said or not said.isprintable():
        raise UsageError("--ask: one line of plain characters is wanted", 'for instance --ask "Who are you?"')
    if len(said.encode("utf-8", "replace")) > LONGEST:
        raise UsageError(f"--ask: the question has more than {LONGEST} bytes", "ask a shorter one, or leave --ask out")
    if said.lower() in talk.commands or any(word in said for word in talk.refused):
        name = " ".join(talk.words)
        raise UsageError(f"--ask: {name} takes {said[:60]!r} for an order and not for a question", "ask something else")
    return said
