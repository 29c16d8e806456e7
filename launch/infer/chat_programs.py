"""The table of talks.toml: the terminal dialogue of each chat program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.toml_file import load_own_record
from launch.rendering.option_schema import Versions, matches_versions

MAX_QUESTION = 3000  # bytes; a terminal line holds at most 4095


@dataclass(frozen=True)
class ChatProgram:
    """An entry of talks.toml; the fields are documented at the beginning of that file."""

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
def load_programs() -> tuple[ChatProgram, ...]:
    """Return all entries of talks.toml."""
    return load_own_record(_TalksFile, Path(__file__).with_name("talks.toml")).talks


@dataclass(frozen=True)
class _TalksFile:
    talks: tuple[ChatProgram, ...]


def find_program(argv: Sequence[str], installed: Versions) -> ChatProgram | None:
    """Return the entry for a command, or None; `installed` are package versions, an unknown version matches."""
    words = [PurePath(word).name for word in argv]
    for program in load_programs():
        if _contains_in_order(program.words, words) and matches_versions(
            installed.get(program.package), program.versions
        ):
            return program
    return None


def _contains_in_order(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Whether `wanted` is a subsequence of `words`."""
    left = iter(words)
    return all(word in left for word in wanted)


def check_question(text: str, program: ChatProgram) -> str:
    """Return the question as it will be typed; UsageError if the program would not treat it as a question."""
    said = text.strip()
    if not said or not said.isprintable():
        raise UsageError(_("--ask: expected one line of printable characters"), _('for example: --ask "Who are you?"'))
    if len(said.encode("utf-8", "replace")) > MAX_QUESTION:
        raise UsageError(
            _("--ask: the question is longer than {longest} bytes", longest=MAX_QUESTION),
            _("shorten the question"),
        )
    if said.lower() in program.commands or any(word in said for word in program.refused):
        name = " ".join(program.words)
        raise UsageError(
            _("--ask: {name} would interpret {said!r} as a command", name=name, said=said[:60]),
            _("ask a different question"),
        )
    return said
