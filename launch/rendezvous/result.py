"""The result of a rendezvous for one node, and the protocol's constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envcheck.core.messages import Message
from envcheck.core.model import Finding, Status, manual
from launch.rendezvous.hello import Hello

ASK = b'{"envcheck-node": "who"}\n'
SAY_EVERY_S, HANG_UP_S = 30.0, 10.0  # between progress messages; to close the connections at the end
Say = Callable[[str], None]


@dataclass(frozen=True)
class RendezvousResult:
    """The nodes that joined (on other nodes than node 0 only the own one), the rank of this node, and the findings."""

    rank: int
    nodes: tuple[Hello, ...]
    findings: tuple[Finding, ...]


def build_lone_result(own: Hello, finding: Finding) -> RendezvousResult:
    """Return the result of a node that did not meet the others."""
    return RendezvousResult(own.rank or 0, (own,), (finding,))


def build_failure(name: str, seen: Message, words: Message) -> Finding:
    """Return a failed finding with the remedy `words`."""
    return Finding(name, Status.FAIL, seen, manual(words))
