"""What tells the host of an output: a prefix of each line, a title above it, or the command that went to the host.

node1: GPU 0: ...                             a host before each line, as pdsh and clush print; also an address
1: GPU 0: ...                                 a task's number, as `srun -l` prints
[1,0]<stdout>: GPU 0: ...                     a process of mpirun
(Worker pid=7, ip=10.0.0.2) GPU 0: ...        an actor of Ray
node1 | CHANGED | rc=0 >>                     a host above its output, as Ansible prints; clush -b and dshbak -c
                                              print it between two lines of dashes
$ ssh node1 nvidia-smi                        a command that runs on another host
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from envcheck.core.tool_text import strip_escapes

HOSTS_LIMIT = 4096
_SAMPLE = 200  # lines
_SHARE = 0.9  # of the lines that must have a source before them
_LINES = 3  # with the same source
_NAME = r"[A-Za-z][\w.-]{0,62}"
_ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}"
_SOURCE = re.compile(
    rf"(?!(?:https?|[A-Za-z]{{1,12}} [A-Za-z]))<?(?P<name>[A-Za-z][\w.-]{{1,62}})>?:(?=[ \t]|$)[ \t]?"
    rf"|(?P<address>{_ADDRESS}):[ \t]?"
    r"| {0,4}(?P<task>\d{1,5}):(?: |$)"
    r"|\[(?P<process>\d{1,5},\d{1,5})\]<std(?:out|err)>: ?"
    rf"|\((?P<actor>\w{{1,80}} pid=\d{{1,8}}(?:, ip=(?P<ip>{_ADDRESS}))?)\)(?: |$)"
)
_CERTAIN = {"process", "actor"}  # kinds of sources of which a single line is enough
_PART = re.compile(r"(?:[gnx]pu|card|chip|die|dev|link|nic|eth|mlx|rank|port|slot|bank)", re.IGNORECASE)  # of a machine
_TITLE = re.compile(
    rf"\s*(?:({_NAME}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)!? ?(?:\| rc=\d+ )?(?:>>|=>)"
    rf"|\[\d+\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] ({_NAME}|{_ADDRESS})(?: .{{0,200}})?"
    rf"|==> ({_NAME}) <==|-{{3,}} ?({_NAME}) ?-{{3,}}"
    rf"|([=*#])\5{{1,80}} ?((?=[A-Za-z._-]*\d){_NAME}|{_ADDRESS}) ?\5{{2,80}})\s*"
)
TITLE_BEGINS, TITLE_ENDS = frozenset("-["), frozenset((">>", "=>", "==", "--", "**", "##"))
TITLE_WORDS, TITLE_RULE = ("(stdout)", "[SUCCESS", "[FAILURE"), "---"  # one of them or of the ends is in each title
_ONE_LINE = re.compile(rf"\s*({_NAME}|{_ADDRESS}) \| [A-Z]{{2,12}}!? \| rc=\d+ \| \(stdout\) ?")
_GATHERED = re.compile(rf"({_NAME}(?:\[[\d,-]{{1,80}}\])?(?:,[\w.,\[\]-]{{1,200}})?|{_ADDRESS})(?: \(\d+\))?")
_REMOTE = re.compile(
    rf"(?:time\s+|timeout\s+\S+\s+)?(?:ssh\s+(?:-[A-Za-z]+(?:\s+[^-\s]\S*)?\s+){{0,8}}(?:[\w.-]+@)?({_NAME}|{_ADDRESS})"
    rf"|kubectl\s.{{0,60}}?\bexec\s+(?:-[\w-]+(?:[\s=][^-\s]\S*)?\s+){{0,8}}(?:pods?/)?({_NAME})\s.{{0,60}}--)"
    r"(?:\s.{0,80})?"
)
_WATCHED = re.compile(
    rf"Every \d{{1,6}}(?:[.,]\d)?s: (.{{1,120}}?)\s+({_NAME}|{_ADDRESS}): [^:]{{4,20}}:\d\d:\d\d.{{0,20}}"
)


@dataclass(frozen=True)
class HostText:
    """The lines of one host, "" if the text does not tell it; `numbers` are their numbers in the whole text, from 1."""

    host: str
    lines: list[str]
    numbers: Sequence[int]


def separate_hosts(text: str) -> list[HostText]:
    """Return the lines of each host where the lines of several have their sources before them, else all lines."""
    lines = (strip_escapes(text) if "\x1b" in text else text).split("\n")
    whole = [HostText("", lines, range(1, len(lines) + 1))]
    sample = list(islice(filter(str.strip, lines), _SAMPLE))
    if 2 * sum(bool(_SOURCE.match(line)) for line in sample) < len(sample):
        return whole
    full = list(filter(str.strip, lines))
    found = Counter(_name_source(match) for line in full if (match := _SOURCE.match(line)))
    least = 1 if _are_numbered(found) or {kind for kind, _ in found} <= _CERTAIN else _LINES
    sources = {source for source, count in found.most_common(HOSTS_LIMIT) if count >= least}
    if not sources or sum(found[source] for source in sources) < _SHARE * len(full):
        return whole
    if len(sources) == 1 and next(iter(sources))[0] == "name":  # may be the level of a logger
        return whole
    apart: dict[tuple[str, str], tuple[list[str], list[int]]] = {}
    others: list[tuple[list[str], list[int]]] = []  # lines without a source, each run of them
    for number, line in enumerate(lines, 1):
        match = _SOURCE.match(line)
        if match and (source := _name_source(match)) in sources:
            own, numbers = apart.setdefault(source, ([], []))
            own.append(line[match.end() :])
            numbers.append(number)
        elif others and (others[-1][1][-1] == number - 1 or len(others) > HOSTS_LIMIT):
            others[-1][0].append(line)
            others[-1][1].append(number)
        elif line.strip():
            others.append(([line], [number]))
    single = len(apart) == 1
    hosts = [
        HostText("" if single and kind != "address" else host, own, numbers)
        for (kind, host), (own, numbers) in apart.items()
    ]
    runs = (HostText("", own, numbers) for own, numbers in others)
    return sorted([*hosts, *runs], key=lambda each: each.numbers[0]) if others else hosts


def _are_numbered(sources: Iterable[tuple[str, str]]) -> bool:
    """Return whether the names differ by numbers alone, as those of a cluster: a single line of each counts."""
    kinds = {(kind, re.sub(r"\d+", "0", name)) for kind, name in sources}
    kind, shape = next(iter(kinds), ("", ""))
    return len(kinds) == 1 and kind in ("name", "address") and "0" in shape and not _PART.match(shape)


def _name_source(match: re.Match[str]) -> tuple[str, str]:
    """Return the kind of the source, and the host's name, or what stands for it."""
    kind = "actor" if match["actor"] else match.lastgroup or ""
    return kind, match["ip"] or match[kind]


def find_title(lines: Sequence[str], at: int) -> tuple[str, int] | None:
    """Return the host of the title that begins in this line, and how many lines the title has.

    Only lines with one of TITLE_BEGINS or TITLE_ENDS can begin one.
    """
    line = lines[at]
    if _is_dashes(line) and at + 2 < len(lines) and _is_dashes(lines[at + 2]):
        gathered = _GATHERED.fullmatch(lines[at + 1])
        return (gathered[1], 3) if gathered else None
    title = _TITLE.fullmatch(line)
    return (next(name for name in (title[1], title[2], title[3], title[4], title[6]) if name), 1) if title else None


def split_one_line_title(line: str) -> tuple[str, str] | None:
    """Return the host and the first line of its output, which `ansible --one-line` prints behind its title."""
    found = _ONE_LINE.match(line)
    return (found[1], line[found.end() :]) if found else None


def find_remote_host(through: str) -> str:
    """Return the host or pod to which the words before a program's name lead, else ""."""
    found = _REMOTE.fullmatch(through.strip())
    return (found[1] or found[2]) if found else ""


def read_watch_head(line: str) -> tuple[str, str] | None:
    """Return the command and the host of the first line of `watch`."""
    found = _WATCHED.fullmatch(line.rstrip()) if line.startswith("Every ") else None
    return (found[1], found[2]) if found else None


def _is_dashes(line: str) -> bool:
    return len(line) > 3 and not line.strip("-")
