"""Ports that a job opens, and packets of the whole size."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.host_names import fold_hosts
from envcheck.fleet.outlier import Odd
from envcheck.fleet.peers.peer_messages import FAIL, NOT_APPLICABLE, fine, more, odd, ports_told
from envcheck.fleet.peers.peer_tests import Seen


def taken(seen: Seen) -> Iterator[Odd]:
    by_host: dict[str, list[int]] = {}
    for host, port in seen.taken:
        by_host.setdefault(host, []).append(port)
    for host, ports in by_host.items():
        why = seen.taken[host, ports[0]]
        words = "Find who has it; a job that still runs, or a program that the system gave the port to."
        yield odd("taken", FAIL, f"{ports_told(ports)} on {host} cannot be opened: {why}", words, [host], "ss -ltnp")


def knocked(seen: Seen) -> Iterator[Odd]:
    """Shut for all who tried is that host's fault; who comes through nowhere is at fault itself."""
    tries: dict[tuple[str, int], dict[str, str]] = {}
    for (host, other, port), why in seen.knocked.items():
        tries.setdefault((other, port), {})[host] = why
    closed = {host for host in {h for h, _, _ in seen.knocked} if _nowhere(seen, host)}
    shut: dict[tuple[str, str, str], list[int]] = {}
    for (other, port), by in tries.items():
        bad = {h: why for h, why in by.items() if why and h not in closed}
        if bad:
            whence = "" if len(bad) == len([h for h in by if h not in closed]) else fold_hosts(bad)
            shut.setdefault((other, whence, next(iter(bad.values()))), []).append(port)
    words = "Open them in the firewalls of both hosts and between: nft list ruleset, security groups."
    for host in sorted(closed):
        yield odd("open", FAIL, f"{host} reaches none of the others' ports", words, [host], "sudo nft list ruleset")
    for (other, whence, why), ports in shut.items():
        text = f"{ports_told(ports)} of {other} cannot be reached{f' from {whence}' if whence else ''}: {why}"
        yield odd("open", FAIL, text, words, [other], "sudo nft list ruleset")
    if seen.knocked and not closed and not shut:
        yield fine("open", f"{ports_told({port for _, _, port in seen.knocked})}: open from host to host")


def _nowhere(seen: Seen, host: str) -> bool:
    """And to two hosts at least, to which others come."""
    tried = {other: why for (h, other, _), why in seen.knocked.items() if h == host}
    others = {other for (h, other, _), why in seen.knocked.items() if h != host and not why}
    return len(tried) > 1 and all(tried.values()) and others >= set(tried)


def packets(seen: Seen) -> Iterator[Odd]:
    for (a, b), (small, full) in seen.packets.items():
        size = seen.about[a].mtu
        if small and not full:
            words = "Give interfaces, switches and tunnels on the way the same MTU: transfers hang, small ones do not."
            text = f"packets of {size} bytes from {a} do not reach {b}, small ones do"
            yield odd("packets", FAIL, text, words, [a], f"ping -M do -s {(size or 1500) - 28} {seen.about[b].address}")
    untold = [pair for pair, (small, _) in seen.packets.items() if not small]
    if untold:
        words = "Open UDP between the hosts for the trial, or try by hand: ping -M do."
        yield odd(
            "packets", NOT_APPLICABLE, f"UDP does not pass from {untold[0][0]} to {untold[0][1]}{more(untold)}", words
        )
    if seen.packets and not untold and all(full for _, full in seen.packets.values()):
        sizes = sorted({str(seen.about[a].mtu) for a, _ in seen.packets})
        yield fine("packets", f"packets of {', '.join(sizes)} bytes pass uncut")
