"""Clock offsets between hosts, with the bounds that an exchange of messages can prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from envcheck.core.messages import Message, _, join
from envcheck.core.model import Finding, Status, diagnose
from envcheck.fleet.outlier import Outlier

NAME, LIMIT_S = "fleet.clock", 0.5
SOURCE = "awslabs/awsome-distributed-ai#180, #202"
SHOWN = 8
WORDS = _("Run chrony or timesyncd on all nodes: clock drift makes nodes drop out of the rendezvous.")
COMMANDS = ("timedatectl", "chronyc tracking")


@dataclass(frozen=True)
class ClockOffset:
    """How far a host's clock is ahead of the local one: provably between `low_s` and `high_s` seconds."""

    low_s: float
    high_s: float

    @property
    def middle_s(self) -> float:
        """The middle of the bounds, in seconds."""
        return (self.low_s + self.high_s) / 2


def compute_offset(there: float, sent: float, received: float) -> ClockOffset:
    """Return the bounds of the offset; `there` was read on the host between local times `sent` and `received`."""
    return ClockOffset(there - received, there - sent)


def choose_sharper(one: ClockOffset, other: ClockOffset) -> ClockOffset:
    """Return the offset with the narrower bounds."""
    return min(one, other, key=lambda o: o.high_s - o.low_s)


def find_outliers(offsets: Mapping[str, ClockOffset], limit_s: float = LIMIT_S) -> list[Outlier]:
    """Return the hosts provably further than the limit from the median of all clocks, the local one included."""
    voices = [*offsets.values(), ClockOffset(0, 0)]
    low, high = median(o.low_s for o in voices), median(o.high_s for o in voices)
    far = {h: o for h, o in offsets.items() if o.high_s < low - limit_s or o.low_s > high + limit_s}
    if not far:
        return []
    middle = (low + high) / 2
    listed = [_("{host} {lead}", host=host, lead=_describe_distance(o.middle_s - middle)) for host, o in far.items()]
    more = _(" and {more} more", more=len(listed) - SHOWN) if listed[SHOWN:] else ""
    seen = _("clock offset from the majority: {offsets}{more}", offsets=join(", ", listed[:SHOWN]), more=more)
    return [Outlier(Finding(NAME, Status.FAIL, seen, diagnose(WORDS, *COMMANDS), (), SOURCE), tuple(far))]


def _describe_distance(seconds: float) -> Message:
    size = abs(seconds)
    time = (
        _("{size:.1f} s", size=size)
        if size < 120
        else _("{size:.0f} min", size=size / 60)
        if size < 7200
        else _("{size:.0f} h", size=size / 3600)
    )
    return _("{time} ahead", time=time) if seconds > 0 else _("{time} behind", time=time)
