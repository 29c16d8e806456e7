"""Choose the line in which a program around the training names what it refused or missed; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from envcheck.explain.processes.line_prefix import find_own_text

# What a message says that names its reason, and what says that it follows from another failure.
_NAMES_REASON = re.compile(
    r"not found|no such|n[o']t exist|cannot|can't|could ?n[o']t|unable to|denied|refused|invalid|unknown|unrecogni[sz]"
    r"|(?:not|no longer|un)[ -]?(?:support|accept|permit|allow|install|match|avail|reach|authori|healthy|specif|set\b)"
    r"|missing|requires?\b|required|must\b|insufficient|not enough|exceed|expired|mismatch|forbidden|conflict|already"
    r"|\btoo (?:many|long|large|big|small|few|old|new)|in use|is full|\blost\b|no (?:space|route|free|nodes?|matching)",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r"exited? with|exit(?:ing)? (?:code|status)|terminat(?:ed|ing) |aborted|back-?off|killed\b|retry|see (?:the )?log"
    r"|failed with (?:rc|error code|return code)|unspecified error|stack initialization failed|^\s{0,8}at ",
    re.IGNORECASE,
)
# Name of the entry of a component, how the component writes lines, and those of its lines that are harmless.
Format = tuple[str, Sequence[re.Pattern[str]], re.Pattern[str] | None]


@dataclass(frozen=True)
class ChosenMessage:
    """`at` is the place among the lines, `values` are the parts of the line."""

    rank: int
    at: int
    name: str
    values: dict[str, str]


def choose_message(lines: Sequence[str], formats: Sequence[Format], events: Iterable[str]) -> ChosenMessage | None:
    """Return the first message that names its reason, otherwise an event with a warning; None without any.

    `events` are the formats whose level says that something is wrong, whatever the words.
    """
    found = list(_list_messages(lines, formats, frozenset(events)))
    return min(found, key=lambda one: one.rank, default=None)


def _list_messages(lines: Sequence[str], formats: Sequence[Format], events: frozenset[str]) -> Iterator[ChosenMessage]:
    for at, text in enumerate(lines):
        if found := _match_format(text, formats):
            name, values = found
            rank = _rank_message(values["what"], name in events)
            if rank is not None:
                yield ChosenMessage(rank, at, name, values)


def _match_format(text: str, formats: Sequence[Format]) -> tuple[str, dict[str, str]] | None:
    """Return the name of the first format that fits, and the parts of the line."""
    own = find_own_text(text)
    for name, patterns, harmless in formats:
        if harmless and harmless.search(text):
            continue
        for pattern in patterns:
            if found := pattern.search(text) or (pattern.search(own) if own else None):
                return name, {part: said.strip() for part, said in found.groupdict(default="").items()}
    return None


def _rank_message(message: str, is_event: bool) -> int | None:
    """Return 0 for a message that names a reason, 1 for another event, 2 for one that follows; None for the rest."""
    if _FOLLOWS.search(message):
        return 2 if is_event else None
    if _NAMES_REASON.search(message):
        return 0
    return 1 if is_event else None
