"""How a meeting ended, for each who was in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envcheck.core.model import Finding, Remedy, Status
from launch.rendezvous.hello import Hello

ASK = b'{"envcheck-node": "who"}\n'
SAY_EVERY_S, HANG_UP_S = 30.0, 10.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class RendezvousResult:
    """Who came, this node's rank, and what is wrong with it."""

    rank: int
    nodes: tuple[Hello, ...]
    findings: tuple[Finding, ...]


def alone(own: Hello, finding: Finding) -> RendezvousResult:
    return RendezvousResult(own.rank or 0, (own,), (finding,))


def failed(name: str, seen: str, words: str) -> Finding:
    return Finding(name, Status.FAIL, seen, Remedy(words))
