"""What was seen between hosts as findings: each names the host or the way at fault, or says that all is well."""

from __future__ import annotations

from itertools import chain

from envcheck.fleet.outlier import Odd
from envcheck.fleet.peers import check_bandwidth, check_names, check_ports, check_rdma, check_reverse_dns
from envcheck.fleet.peers.peer_messages import NOT_APPLICABLE, odd
from envcheck.fleet.peers.peer_tests import Seen

PARTS = (
    check_names.gone,
    check_names.names,
    check_reverse_dns.addresses,
    check_names.clocks_told,
    check_ports.taken,
    check_ports.knocked,
    check_ports.packets,
    check_bandwidth.measured,
    check_bandwidth.cards,
    check_rdma.crossed,
)


def findings(seen: Seen) -> list[Odd]:
    return list(chain.from_iterable(part(seen) for part in PARTS))


def too_few(answered: int) -> Odd:
    words = "Name two at least, or look why the others do not answer."
    return odd("between", NOT_APPLICABLE, f"{answered} of the hosts answered: nothing to try between them", words)
