"""What the tools for RDMA say, read: a figure, that nothing came through, or that they themselves could not."""

from __future__ import annotations

import enum
import itertools
import re
from dataclasses import dataclass

LINE, LINES = 160, 400
SPEEDS = {"Gb/sec": 1e9 / 8, "MB/sec": float(1 << 20)}  # perftest's MB are MiB, as its help says
FIGURE = r"\d+(?:\.\d+)?"
TITLES = re.compile(r"#\w+|(?:BW|MsgRate|t_\w+|[\d.]+%)[^\[]*\[[^\]]+\]")
PINGPONG = re.compile(rf"{FIGURE} iters in {FIGURE} seconds = ({FIGURE}) usec/iter")
RPING = re.compile(r"^ping data: rdma-ping-\d+: ", re.M)


class Kind(enum.Enum):
    """UNMET: both sides did not find each other by TCP, UNABLE: a side could not begin; neither tells of RDMA."""

    WELL = "well"
    LOST = "lost"
    LATE = "late"
    UNMET = "unmet"
    UNABLE = "unable"
    UNREAD = "unread"


@dataclass(frozen=True)
class Outcome:
    """`rate` in bytes a second, `time_s` of a small message, where the tool measures it; `why` is a tool's line."""

    kind: Kind
    rate: float | None = None
    time_s: float | None = None
    why: str = ""


# In the order of what explains most.  Texts of perftest 4.5 to 24 and rdma-core 44, seen with soft RoCE or in their
# sources; `Failed status 12` is IBV_WC_RETRY_EXC_ERR: nobody acknowledged.
LINES_OF = (
    (Kind.LOST, r"port number \d+ state is"),
    (Kind.UNABLE, r"did not detect devices|failed to get ib devices|no rdma devices"),
    (Kind.UNABLE, r"unable to find the infiniband|ib device .* not found"),
    (Kind.UNABLE, r"couldn't get context|failed to open|couldn't (?:register|allocate) (?:mr|pd)|failed to create mr"),
    (Kind.UNABLE, r"couldn't allocate|cannot allocate memory|operation not permitted|permission denied|not found$"),
    (Kind.UNABLE, r"couldn't listen|address already in use|unrecognized option|invalid option|no such file"),
    (Kind.LOST, r"completion with error|failed status|wc error|completion failed"),
    (Kind.LOST, r"incompatibility issue with gid|couldn't get local lid"),
    (Kind.LOST, r"failed to modify qp|unable to connect the hca|couldn't connect to remote qp"),
    (Kind.LOST, r"rdma_cm_event_(?:unreachable|connect_error|route_error)|data (?:mismatch|verification failed)"),
    (Kind.LOST, r"rdma_resolve_(?:addr|route): (?:network is unreachable|no route|connection timed out)"),
    (Kind.UNMET, r"couldn't connect to|unable to (?:open file descriptor|init the socket)|rdma_cm_event_rejected"),
    (Kind.UNMET, r"rdma_cm_event_addr_error|rdma_resolve_addr|couldn't read.* remote address"),
)


def outcome(tool: str, code: int | None, words: str, other: str = "") -> Outcome:
    """`words` of the side that called, `other` of the one that listened; no code: it was not done in time."""
    if code is None:  # and ended then, which the other side takes for a talk that broke off
        found = _known(words, other)
        return found if found and found.kind is not Kind.UNMET else Outcome(Kind.LATE)
    if code == 0:
        return _figure(tool, words)
    return _known(words, other) or Outcome(Kind.UNREAD, why=_last(words) or _last(other))


def unheard(words: str) -> Outcome:
    """Of a side that ended before it listened."""
    return _known(words, "") or Outcome(Kind.UNABLE, why=_last(words))


def _known(words: str, other: str) -> Outcome | None:
    """The most telling line of either side: what breaks off on one is often explained on the other."""
    lines = [*_lines(words), *_lines(other)]
    for kind, pattern in LINES_OF:
        for line in lines:
            if re.search(pattern, line.lower()):
                return Outcome(kind, why=_with_status(line, lines))
    return None


def _with_status(line: str, lines: list[str]) -> str:
    """` Completion with error at client` alone says little: its status stands in the next line."""
    after = lines[lines.index(line) + 1 :][:1]
    more = f": {after[0]}" if line.endswith("Completion with error at client") and after else ""
    return f"{line}{more}"[:LINE]


def _lines(text: str) -> list[str]:
    return [line.strip()[:LINE] for line in text.splitlines()[-LINES:] if line.strip(" -*\t")]


def _last(text: str) -> str:
    return (_lines(text) or [""])[-1]


def _figure(tool: str, words: str) -> Outcome:
    if tool == "rping":
        return Outcome(Kind.WELL) if RPING.search(words) else Outcome(Kind.UNREAD, why=_last(words))
    if tool == "ibv_rc_pingpong":
        found = PINGPONG.search(words)
        return Outcome(Kind.WELL, time_s=float(found[1]) / 1e6) if found else Outcome(Kind.UNREAD, why=_last(words))
    return _table(words) or Outcome(Kind.UNREAD, why=_last(words))


def _table(words: str) -> Outcome | None:
    """perftest's: titles with their units, which stand in one line, and the figures in the next.

    #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
    65536      1000             97.62              97.58              0.186116
    """
    lines = _lines(words)
    for head, row in itertools.pairwise(lines):
        if head.startswith("#bytes"):
            said = dict(zip(TITLES.findall(head), row.split(), strict=False))
            for title, text in said.items():
                name, _, unit = title.rstrip("]").partition("[")
                if not re.fullmatch(FIGURE, text):
                    continue
                if name == "BW average" and unit in SPEEDS:
                    return Outcome(Kind.WELL, rate=float(text) * SPEEDS[unit])
                if name == "t_typical" and unit == "usec":
                    return Outcome(Kind.WELL, time_s=float(text) / 1e6)
    return None
