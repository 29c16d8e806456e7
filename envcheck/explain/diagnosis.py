"""The data of the catalogue and of a diagnosis."""

from __future__ import annotations

import re
import typing
from dataclasses import dataclass
from typing import Literal

from envcheck.core.messages import Message
from envcheck.explain.processes.process_end import ProcessEnd

# In display order: possible causes, then their consequences, then mere reports of an exit.
EntryKind = Literal["cause", "symptom", "summary", "warning"]
# Of an entry's lines that call themselves warnings; "" for nothing more than that.
WarningMeaning = Literal["", "waiting", "last_line", "setup", "before_steps"]
KINDS = typing.get_args(EntryKind)
# What became of the processes of logs; for a text or code, whether an entry knows it.
Verdict = Literal["finished", "failed", "running", "no_failure", "unknown", "explained"]
QUIET: tuple[Verdict, ...] = ("finished", "running", "no_failure")  # nothing failed as far as the log goes


@dataclass(frozen=True)
class CatalogueEntry:
    """A known failure.  A line matches if it contains a word of `near` and a pattern matches.

    `infrastructure`: a card, link, node or the host's memory failed, not the job; the job may be started again.

    `near` is lower case; without `match`, the word alone suffices, if it is a whole word.  `needs` must match in the
    surrounding lines, `lacks` must not; `unless` must not match in the line.  A printed version that does not meet a
    requirement of `installed` excludes the entry.  `around` takes more values from the surrounding lines.
    `partners`: a package, and the component of which its printed version needs a version.

    `warned`: what a line that calls itself a warning means.  waiting: normal at a start, and the reason of a log that
    ends with it; last_line: the reason only of such a log; setup: the cause of a log that has no other one;
    before_steps: nothing if a step follows.  `in_info`: lines at level INFO, and with a count of zero, match as well.
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
    lacks: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    around: tuple[re.Pattern[str], ...] = ()
    installed: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    applies: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()  # names, or areas, of entries that cause this one
    peer: str = ""  # waits: it timed out waiting for other ranks; gone: another rank left or ended it
    infrastructure: bool = False
    warned: WarningMeaning = ""
    in_info: bool = False


@dataclass(frozen=True)
class Evidence:
    """A line of the log, without secrets; `time` is comparable between lines, None if the line has none.

    `ours` is the part at its end that is ours, not the log's: the meaning of a bare code.  `about` is the pod or other
    object of Kubernetes that it is about, "" where the log has none.
    """

    file: str
    line: int
    text: str
    time: float | None = None
    ours: str = ""
    about: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """`count` is the number of matching lines; `evidence` the first of them; `follows` the name of its possible cause.

    `named` are the values taken from the line: (placeholder, text).  `installed` are the versions of the packages in
    question that the log prints, `torch 2.6.0`.
    """

    name: str
    kind: str
    description: str
    why: str
    do: str
    commands: tuple[str, ...]
    source: tuple[str, ...]
    applies_to: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    count: int
    caused_by: str = ""
    named: tuple[tuple[str, str], ...] = ()
    installed: tuple[str, ...] = ()


@dataclass(frozen=True)
class RaisedException:
    """A Python exception: type and text, its place in the log, the innermost and outermost relevant source lines."""

    text: str
    file: str
    line: int
    raised_in: str = ""
    called_from: str = ""
    time: float | None = None
    frames: tuple[str, ...] = ()  # the innermost ones, the last one last
    sources: tuple[str, ...] = ()  # their source lines
    rank: int | None = None  # which the launcher put before the lines
    unit: str = ""  # the pod or container that its tool put before the lines
    end: int = 0  # line of the exception itself
    details: str = ""  # lines after the first that may belong to its message
    continuation: str = ""  # those of them that certainly do
    last: int = 0  # the last line that may belong to it
    is_cut: bool = False  # the log lacks that line
    own_time: float | None = None  # only from its own block of lines; `time` may be that of an earlier line
    is_handled: bool = False  # a line of the same process after it tells that the program will continue
    is_reported: bool = False  # the line before it reports it at a level below an error
    in_handler: bool = False  # it was raised while another one was handled, which the log has before it
    in_thread: bool = False  # it ended a thread or a task; the program need not notice


@dataclass(frozen=True)
class ExplainReport:
    """What was read and found; `first` is the log of the first process to fail; `notes` come from the run's record."""

    diagnoses: tuple[Diagnosis, ...]
    raised: RaisedException | None
    relevant_lines: tuple[Evidence, ...]
    read: tuple[tuple[str, int, int], ...]  # name, lines, bytes
    first: str = ""
    notes: tuple[str, ...] = ()
    verdict: Verdict = "explained"
    ends: tuple[ProcessEnd, ...] = ()
    summary: Message | None = None  # which process failed first, and what it did to the others

    @property
    def has_cause(self) -> bool:
        """Whether a diagnosis may be the cause, and is more than the report of an exit."""
        return any(one.kind in ("cause", "symptom") for one in self.diagnoses)
