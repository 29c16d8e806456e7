"""Checks of the ports that a job opens, and of full-size packets."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.host_names import fold_hosts
from envcheck.core.messages import _, fill, join
from envcheck.core.model import diagnose, manual
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.outliers import FAIL, NOT_APPLICABLE, format_more, format_ports, make_outlier, make_passed


def check_taken_ports(observed: PeerObservations) -> Iterator[Outlier]:
    """Report ports that another program uses."""
    by_host: dict[str, list[int]] = {}
    for host, port in observed.taken:
        by_host.setdefault(host, []).append(port)
    for host, ports in by_host.items():
        why = observed.taken[host, ports[0]]
        words = _(
            "Find the process that uses the port: a job still running, or a program that the "
            "system assigned the port to."
        )
        yield make_outlier(
            "taken",
            FAIL,
            _("cannot open {ports} on {host}: {why}", ports=format_ports(ports), host=host, why=fill(why)),
            diagnose(words, "ss -ltnp"),
            [host],
        )


def check_open_ports(observed: PeerObservations) -> Iterator[Outlier]:
    """Report closed ports: of the target if nobody reaches it, of the origin if it reaches nobody."""
    tries: dict[tuple[str, int], dict[str, str]] = {}
    for (host, other, port), why in observed.knocked.items():
        tries.setdefault((other, port), {})[host] = why
    closed = {host for host in {h for h, *_unused in observed.knocked} if _reaches_nobody(observed, host)}
    shut: dict[tuple[str, str, str], list[int]] = {}
    for (other, port), by in tries.items():
        bad = {h: why for h, why in by.items() if why and h not in closed}
        if bad:
            whence = "" if len(bad) == len([h for h in by if h not in closed]) else fold_hosts(bad)
            shut.setdefault((other, whence, next(iter(bad.values()))), []).append(port)
    words = _("Open the ports in the firewalls of both hosts and in between: nft list ruleset, security groups.")
    for host in sorted(closed):
        yield make_outlier(
            "open",
            FAIL,
            _("{host} cannot reach any port of the other hosts", host=host),
            diagnose(words, "sudo nft list ruleset"),
            [host],
        )
    for (other, whence, why), ports in shut.items():
        shown = format_ports(ports)
        text = (
            _(
                "{origin} cannot reach {ports} of {host}: {why}",
                ports=shown,
                host=other,
                origin=whence,
                why=fill(why),
            )
            if whence
            else _("cannot reach {ports} of {host}: {why}", ports=shown, host=other, why=fill(why))
        )
        yield make_outlier("open", FAIL, text, diagnose(words, "sudo nft list ruleset"), [other])
    if observed.knocked and not closed and not shut:
        yield make_passed(
            "open",
            _(
                "{ports}: reachable between all hosts",
                ports=format_ports({port for _unused, _unused, port in observed.knocked}),
            ),
        )


def _reaches_nobody(observed: PeerObservations, host: str) -> bool:
    """Return whether the host reaches none of at least two hosts that others reach."""
    tried = {other: why for (h, other, _unused), why in observed.knocked.items() if h == host}
    others = {other for (h, other, _unused), why in observed.knocked.items() if h != host and not why}
    return len(tried) > 1 and all(tried.values()) and others >= set(tried)


def check_packet_sizes(observed: PeerObservations) -> Iterator[Outlier]:
    """Report paths on which full-size packets are lost."""
    for (a, b), (small, full) in observed.packets.items():
        size = observed.about[a].mtu
        if small and not full:
            words = _(
                "Set the same MTU on all interfaces, switches and tunnels of the path: large "
                "transfers hang, small ones pass."
            )
            text = _("packets of {size} bytes from {a} do not reach {b}; small packets do", size=size, a=a, b=b)
            yield make_outlier(
                "packets",
                FAIL,
                text,
                diagnose(words, f"ping -M do -s {(size or 1500) - 28} {observed.about[b].address}"),
                [a],
            )
    untold = [pair for pair, (small, _unused) in observed.packets.items() if not small]
    if untold:
        words = _("Allow UDP between the hosts for the test, or test manually with ping -M do.")
        a, b = untold[0]
        text = _("UDP packets from {a} do not reach {b}{others}", a=a, b=b, others=format_more(untold))
        yield make_outlier("packets", NOT_APPLICABLE, text, manual(words))
    if observed.packets and not untold and all(full for _unused, full in observed.packets.values()):
        sizes = sorted({str(observed.about[a].mtu) for a, _unused in observed.packets})
        yield make_passed(
            "packets", _("packets of {sizes} bytes arrive without fragmentation", sizes=join(", ", sizes))
        )
