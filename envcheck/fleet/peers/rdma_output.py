"""Parse the output of RDMA tools: a figure, a lost connection, or a tool that could not run."""

from __future__ import annotations

import enum
import itertools
import re
from dataclasses import dataclass

LINE, LINES = 160, 400
SPEEDS = {"Gb/sec": 1e9 / 8, "MB/sec": float(1 << 20)}  # perftest's MB are MiB, according to its help
FIGURE = r"\d+(?:\.\d+)?"
TITLES = re.compile(r"#\w+|(?:BW|MsgRate|t_\w{1,20}|[\d.]{1,8}%)[^\[]{0,40}\[[^\]]{1,40}\]")
PINGPONG = re.compile(rf"(?<![\d.]){FIGURE} iters in {FIGURE} seconds = ({FIGURE}) usec/iter")
RPING = re.compile(r"^ping data: rdma-ping-\d+: ", re.M)


class RdmaVerdict(enum.Enum):
    """UNMET: the sides did not connect by TCP; UNABLE: a side could not start; neither says anything about RDMA."""

    WELL = "well"
    LOST = "lost"
    LATE = "late"
    UNMET = "unmet"
    UNABLE = "unable"
    UNREAD = "unread"


@dataclass(frozen=True)
class RdmaOutcome:
    """`rate` is in bytes per second, `time_s` is of a small message if the tool measures it; `why` quotes the tool."""

    kind: RdmaVerdict
    rate: float | None = None
    time_s: float | None = None
    why: str = ""


# Most specific first.  Texts of perftest 4.5 to 24 and rdma-core 44, observed with soft RoCE or from their sources;
# `Failed status 12` is IBV_WC_RETRY_EXC_ERR: no acknowledgement.
LINES_OF = (
    (RdmaVerdict.LOST, r"port number \d+ state is"),
    (RdmaVerdict.UNABLE, r"did not detect devices|failed to get ib devices|no rdma devices"),
    (RdmaVerdict.UNABLE, r"unable to find the infiniband|ib device .* not found"),
    (
        RdmaVerdict.UNABLE,
        r"couldn't get context|failed to open|couldn't (?:register|allocate) (?:mr|pd)|failed to create mr",
    ),
    (
        RdmaVerdict.UNABLE,
        r"couldn't allocate|cannot allocate memory|operation not permitted|permission denied|not found$",
    ),
    (RdmaVerdict.UNABLE, r"couldn't listen|address already in use|unrecognized option|invalid option|no such file"),
    (RdmaVerdict.LOST, r"completion with error|failed status|wc error|completion failed"),
    (RdmaVerdict.LOST, r"incompatibility issue with gid|couldn't get local lid"),
    (RdmaVerdict.LOST, r"failed to modify qp|unable to connect the hca|couldn't connect to remote qp"),
    (
        RdmaVerdict.LOST,
        r"rdma_cm_event_(?:unreachable|connect_error|route_error)|data (?:mismatch|verification failed)",
    ),
    (RdmaVerdict.LOST, r"rdma_resolve_(?:addr|route): (?:network is unreachable|no route|connection timed out)"),
    (
        RdmaVerdict.UNMET,
        r"couldn't connect to|unable to (?:open file descriptor|init the socket)|rdma_cm_event_rejected",
    ),
    (RdmaVerdict.UNMET, r"rdma_cm_event_addr_error|rdma_resolve_addr|couldn't read.* remote address"),
)


def read_outcome(tool: str, code: int | None, words: str, other: str = "") -> RdmaOutcome:
    """Return the outcome from `words` of the client and `other` of the listener; no code: not finished in time."""
    if code is None:  # then killed, which the other side reports as a broken connection
        found = _match_known_line(words, other)
        return found if found and found.kind is not RdmaVerdict.UNMET else RdmaOutcome(RdmaVerdict.LATE)
    if code == 0:
        return _read_figure(tool, words)
    return _match_known_line(words, other) or RdmaOutcome(
        RdmaVerdict.UNREAD, why=_get_last_line(words) or _get_last_line(other)
    )


def read_failed_listener(words: str) -> RdmaOutcome:
    """Return the outcome for a listener that ended before it listened."""
    return _match_known_line(words, "") or RdmaOutcome(RdmaVerdict.UNABLE, why=_get_last_line(words))


def _match_known_line(words: str, other: str) -> RdmaOutcome | None:
    """Return the most specific line of either side: a break on one side is often explained on the other."""
    lines = [*_split_lines(words), *_split_lines(other)]
    for kind, pattern in LINES_OF:
        for line in lines:
            if re.search(pattern, line.lower()):
                return RdmaOutcome(kind, why=_add_status(line, lines))
    return None


def _add_status(line: str, lines: list[str]) -> str:
    """Return the line with the status of the next one: ` Completion with error at client` says little alone."""
    after = lines[lines.index(line) + 1 :][:1]
    more = f": {after[0]}" if line.endswith("Completion with error at client") and after else ""
    return f"{line}{more}"[:LINE]


def _split_lines(text: str) -> list[str]:
    return [line.strip()[:LINE] for line in text.splitlines()[-LINES:] if line.strip(" -*\t")]


def _get_last_line(text: str) -> str:
    return (_split_lines(text) or [""])[-1]


def _read_figure(tool: str, words: str) -> RdmaOutcome:
    if tool == "rping":
        return (
            RdmaOutcome(RdmaVerdict.WELL)
            if RPING.search(words)
            else RdmaOutcome(RdmaVerdict.UNREAD, why=_get_last_line(words))
        )
    if tool == "ibv_rc_pingpong":
        found = PINGPONG.search(words)
        return (
            RdmaOutcome(RdmaVerdict.WELL, time_s=float(found[1]) / 1e6)
            if found
            else RdmaOutcome(RdmaVerdict.UNREAD, why=_get_last_line(words))
        )
    return _read_table(words) or RdmaOutcome(RdmaVerdict.UNREAD, why=_get_last_line(words))


def _read_table(words: str) -> RdmaOutcome | None:
    """Parse perftest's table: titles with units in one line, and the figures in the next.

    #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
    65536      1000             97.62              97.58              0.186116
    """
    lines = _split_lines(words)
    for head, row in itertools.pairwise(lines):
        if head.startswith("#bytes"):
            columns = dict(zip(TITLES.findall(head), row.split(), strict=False))
            for title, text in columns.items():
                name, _, unit = title.rstrip("]").partition("[")
                if not re.fullmatch(FIGURE, text):
                    continue
                if name == "BW average" and unit in SPEEDS:
                    return RdmaOutcome(RdmaVerdict.WELL, rate=float(text) * SPEEDS[unit])
                if name == "t_typical" and unit == "usec":
                    return RdmaOutcome(RdmaVerdict.WELL, time_s=float(text) / 1e6)
    return None
