"""Findings from the tests between hosts: each blames a host or a path, or reports success."""

from __future__ import annotations

from itertools import chain

from envcheck.core.messages import _
from envcheck.core.model import manual
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.peers import check_bandwidth, check_names, check_ports, check_rdma, check_reverse_dns
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.outliers import NOT_APPLICABLE, make_outlier

PARTS = (
    check_names.check_lost_hosts,
    check_names.check_host_names,
    check_reverse_dns.check_addresses,
    check_names.check_clocks,
    check_ports.check_taken_ports,
    check_ports.check_open_ports,
    check_ports.check_packet_sizes,
    check_bandwidth.check_speed,
    check_bandwidth.check_card_pings,
    check_rdma.check_connections,
)


def list_findings(observed: PeerObservations) -> list[Outlier]:
    """Return the findings of all tests."""
    return list(chain.from_iterable(part(observed) for part in PARTS))


def describe_too_few_hosts(answered: int) -> Outlier:
    """Return the finding for fewer than two hosts."""
    words = _("Specify at least two hosts, or check why the others do not respond.")
    return make_outlier(
        "between",
        NOT_APPLICABLE,
        _("{answered} hosts responded; at least two are needed for tests between hosts", answered=answered),
        manual(words),
    )
