"""What was seen between hosts as findings: each names the host or the way at fault, or says that all is well."""

from __future__ import annotations

from itertools import chain

from envcheck.fleet import tried_back, tried_names, tried_ports, tried_rdma, tried_speed
from envcheck.fleet.between import Seen
from envcheck.fleet.odd import Odd
from envcheck.fleet.tried_words import SKIP, odd

PARTS = (
    tried_names.gone,
    tried_names.names,
    tried_back.addresses,
    tried_names.clocks_told,
    tried_ports.taken,
    tried_ports.knocked,
    tried_ports.packets,
    tried_speed.measured,
    tried_speed.cards,
    tried_rdma.crossed,
)


def findings(seen: Seen) -> list[Odd]:
    return list(chain.from_iterable(part(seen) for part in PARTS))


def too_few(answered: int) -> Odd:
    words = "Name two at least, or look why the others do not answer."
    return odd("between", SKIP, f"{answered} of the hosts answered: nothing to try between them", words)
