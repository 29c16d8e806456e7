"""Clocks of hosts beside each other: what an exchange of messages can prove, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet.outlier import Odd

NAME, LIMIT_S = "fleet.clock", 0.5
SOURCE = "awslabs/awsome-distributed-ai#180, #202"
SHOWN = 8
WORDS = "Let chrony or timesyncd run on all nodes: clocks that drift drop nodes from the rendezvous."
COMMANDS = ("timedatectl", "chronyc tracking")


@dataclass(frozen=True)
class Offset:
    """How far a host's clock is ahead of ours: surely between `low_s` and `high_s`."""

    low_s: float
    high_s: float

    @property
    def middle_s(self) -> float:
        return (self.low_s + self.high_s) / 2


def of(there: float, sent: float, received: float) -> Offset:
    """`there` was read on the host between two looks at our own clock."""
    return Offset(there - received, there - sent)


def sharper(one: Offset, other: Offset) -> Offset:
    return min(one, other, key=lambda o: o.high_s - o.low_s)


def odd(offsets: Mapping[str, Offset], limit_s: float = LIMIT_S) -> list[Odd]:
    """The hosts that are surely further than the limit from the middle of all; ours is a voice as any other."""
    voices = [*offsets.values(), Offset(0, 0)]
    low, high = median(o.low_s for o in voices), median(o.high_s for o in voices)
    far = {h: o for h, o in offsets.items() if o.high_s < low - limit_s or o.low_s > high + limit_s}
    if not far:
        return []
    middle = (low + high) / 2
    told = [f"{host} {_away(o.middle_s - middle)}" for host, o in far.items()]
    more = f" and {len(told) - SHOWN} more" if told[SHOWN:] else ""
    seen = f"clocks: {', '.join(told[:SHOWN])}{more} of most"
    return [Odd(Finding(NAME, Status.FAIL, seen, Remedy(WORDS, COMMANDS), (), SOURCE), tuple(far))]


def _away(seconds: float) -> str:
    size = abs(seconds)
    shown = f"{size:.1f} s" if size < 120 else f"{size / 60:.0f} min" if size < 7200 else f"{size / 3600:.0f} h"
    return f"{shown} {'ahead' if seconds > 0 else 'behind'}"
