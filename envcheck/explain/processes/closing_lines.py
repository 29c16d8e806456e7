"""Lines that report a regular end only if nothing but their program's own lines follow; pure.

An image or an environment is complete before the training in it starts, a trainer may print its time after each epoch,
and of several containers the first one may end early.
"""

from __future__ import annotations

import re

LINES = 200  # at the end of a log that are examined
_CLOSING = re.compile(
    rb"^#\d{1,4} naming to \S{1,300}(?: \S{1,12})? done\b|^Successfully tagged \S"  # docker build
    rb"|^Installation of the .{3,200} is now complete\.|^#? {0,8}To activate this environment, use"
    rb"|^\W{0,6}(?:Total )?Training [Tt]ime\s{0,20}: {1,4}[\d.]{1,12} ?s\b"  # litgpt
    rb"|^LAUNCH INFO .{0,40} Exit code 0\b"  # Paddle, of one node
    rb"|\bworker group successfully finished\b|\bWorkerState\.SUCCEEDED\b"
)
_FOLLOWING = re.compile(
    rb"(?!.{0,600}(?i:error|fail|cancel))(?:\s{0,40}$|#(?!\d)|\| |#\d{1,4} (?:DONE|exporting|unpacking|pushing)\b"
    rb"| {0,3}(?:\d{1,3} warnings? found|- )|View build details|.{0,200}/elastic/agent/server/api\.py:\d)"
)
_RESTART = b"will restart worker group"  # torchrun
_EXITED = re.compile(rb"^(\S{1,80}) exited with code (\d{1,3})\s{0,3}$")
_STOPPING = re.compile(rb"\s{0,40}$| {0,3}Container \S{1,80} {1,8}Stopp|Aborting on container|Gracefully stopping")
_UNIT = re.compile(rb"^([\w.-]{1,80}) {1,20}\| ")


def find_closing_line(end: bytes) -> int:
    """Return how many lines from the last one such a line is, counted from 1; 0 for none."""
    for number, line in enumerate(reversed(end.split(b"\n")[-LINES:]), 1):
        if _CLOSING.search(line[:600]):
            return number
        if not _FOLLOWING.match(line):
            return 0
    return 0


def find_restart(end: bytes) -> int:
    """Return how many lines from the last one a launcher last started its processes again; 0 for never."""
    return end.count(b"\n", end.rfind(_RESTART)) + 1 if _RESTART in end else 0


def find_last_exit(end: bytes) -> int:
    """Return the same of the container that ended last, all regularly; 0 if one of them did not, or a line follows."""
    lines = end.split(b"\n")
    units = {found[1] for line in lines if (found := _UNIT.match(line))}
    ended = [(number, one) for number, line in enumerate(reversed(lines), 1) if (one := _EXITED.match(line))]
    regular = {one[1] for _number, one in ended if one[2] == b"0"}
    if len(regular) != len(ended) or not ended or not units <= regular:
        return 0
    last = ended[0][0]
    return last if all(map(_STOPPING.match, lines[len(lines) - last + 1 :])) else 0
