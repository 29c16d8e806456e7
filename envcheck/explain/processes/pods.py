"""Which object of Kubernetes lines are about: sections of `kubectl describe`, and objects in lists of events; pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

MOST = 2000  # sections of one log
LAST = chr(0x10FFFF)  # sorts after every name
_WORD = b"Name:"
# The name of an object, with a line that only objects of Kubernetes have among the next three; other programs print
# names too (pip show, a configuration).  Where the block ends before, fields have to follow.
_HEAD = re.compile(
    rb"^Name: {1,40}([\w.-]{1,200})[ \r]{0,4}$"
    rb"(?=\n(?:[^\n]{0,400}\n){0,2}?(?:Namespace|Labels):|(?:\n[A-Z][\w ]{2,30}:[^\n]{0,400}){0,2}\n?\Z)",
    re.MULTILINE,
)
_OBJECT = re.compile(
    r"\b(?:pod|job|pytorchjob|mpijob|rayjob|workload|podgroup)s?/([\w.-]{1,200})|\bin pod ([\w.-]{1,200})_"
)

_RECOVERY_WORDS = (b"Normal ", b" Ready ")
_RECOVERY = re.compile(
    rb"^ {0,8}Normal {1,12}(Scheduled|Started|Completed) {1,30}\S|^ {1,8}(Ready) {2,40}True[ \r]{0,4}$", re.MULTILINE
)
# What fails after a start, as a probe, is not overcome by the next one, as the steps to a start are.
_FAILED_EVENT = re.compile(
    r"\s{0,8}Warning {1,12}(FailedScheduling|Failed(?:Mount|AttachVolume|MapVolume|CreatePodSandBox)?|NetworkNotReady"
    r"|InspectFailed|ErrImagePull|Unhealthy|BackOff) {1,30}\S"
)

_OVERCOME_BY: dict[str, tuple[str, ...]] = {
    "FailedScheduling": ("Scheduled", "Started"),
    "Unhealthy": (),
    "BackOff": (),
}

Section = tuple[int, str]  # its first line, and the name of its object
Recovery = tuple[int, str]  # line and reason of an event after which earlier failures no longer matter


def list_sections(block: bytes, lines: int) -> list[Section]:
    """Return the sections that begin in a block that follows `lines` lines."""
    if _WORD not in block:
        return []
    found: list[Section] = []
    number, start = lines + 1, 0
    for head in _HEAD.finditer(block):
        number += block.count(b"\n", start, head.start())
        start = head.start()
        found.append((number, head[1].decode()))
    return found


def join_sections(known: Sequence[Section], more: Sequence[Section]) -> list[Section]:
    """Return both; after the last section that is kept, lines are of no object."""
    every = [*known, *more]
    return every if len(every) <= MOST else [*every[:MOST], (every[MOST][0], "")]


def find_object(text: str, line: int, sections: Sequence[Section]) -> str:
    """Return the object of a line: one that it names, otherwise that of its section; "" for none."""
    if named := _OBJECT.search(text):
        return named[1] or named[2]
    at = bisect_right(sections, (line, LAST))
    return sections[at - 1][1] if at else ""


def list_recoveries(block: bytes, lines: int) -> list[Recovery]:
    """Return the events in a block that follows `lines` lines which report that a pod got a node, or started, and the
    conditions that it is ready.
    """
    found: list[Recovery] = []
    number, start = lines + 1, 0
    for event in _RECOVERY.finditer(block) if any(word in block for word in _RECOVERY_WORDS) else ():
        number += block.count(b"\n", start, event.start())
        start = event.start()
        found.append((number, (event[1] or event[2]).decode()))
    return found


def is_overcome(text: str, line: int, sections: Sequence[Section], recoveries: Sequence[Recovery]) -> bool:
    """Return whether a line is of a failed event of an object that is ready, or whose next step succeeded afterwards.

    `kubectl describe` lists the conditions of an object, then its events in the order of their times.
    """
    failed = _FAILED_EVENT.match(text)
    if failed is None:
        return False
    at = bisect_right(sections, (line, LAST))
    end = sections[at][0] if at < len(sections) else line + MOST
    if at and any(sections[at - 1][0] < number < end and event == "Ready" for number, event in recoveries):
        return True
    needed = (*_OVERCOME_BY.get(failed[1], ("Started",)), "Completed")
    return any(line < number < end and event in needed for number, event in recoveries)
