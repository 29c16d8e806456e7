"""What the catalogue holds and what a diagnosis says."""

from __future__ import annotations

import re
import typing
from dataclasses import dataclass
from typing import Literal

# Told in this order: what may be a cause comes before what may follow from it, and before what merely reports an end.
EntryKind = Literal["cause", "symptom", "summary", "warning"]
KINDS = typing.get_args(EntryKind)


@dataclass(frozen=True)
class Entry:
    """One thing that goes wrong.  A line is of it when a word of `near` stands in it and a pattern matches.

    `near` is lower case; without `match` the word alone is enough, if it stands there as a word.  `needs` must match
    in the lines around; `unless` must not match in the line.
    """

    name: str
    area: str
    kind: str
    says: str
    why: str
    do: str
    near: tuple[str, ...]
    match: tuple[re.Pattern[str], ...]
    needs: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    commands: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    applies: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()  # names, or areas, of entries that bring this one about


@dataclass(frozen=True)
class Evidence:
    """A line as it stands in the log, without secrets; `time` as a number that can be compared, None where unsaid.

    `ours` is what of its end are our own words, not the log's: what a bare code means.
    """

    file: str
    line: int
    text: str
    time: float | None = None
    ours: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """`count` is of all lines that match; `evidence` is the first of them; `follows` names the cause it may be of.

    `named` is what the words took from the line, as it stands there: (the place's name, the text).
    """

    name: str
    kind: str
    says: str
    why: str
    do: str
    commands: tuple[str, ...]
    source: tuple[str, ...]
    applies: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    count: int
    follows: str = ""
    named: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Raised:
    """An exception of Python: what, where in the file, and the innermost and outermost places that are not of it."""

    what: str
    file: str
    line: int
    raised_in: str = ""
    called_from: str = ""
    time: float | None = None


@dataclass(frozen=True)
class Report:
    """What was read and what it says; `first` is the file that failed first, of several; `notes` is what the
    run's record says besides."""

    diagnoses: tuple[Diagnosis, ...]
    raised: Raised | None
    telling: tuple[Evidence, ...]
    read: tuple[tuple[str, int, int], ...]  # name, lines, bytes
    first: str = ""
    notes: tuple[str, ...] = ()
