"""What was seen between hosts as findings: each names the host or the way at fault, or says that all is well."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from envcheck.checks.common import ranges
from envcheck.fleet import clocks, paired
from envcheck.fleet.between import Seen
from envcheck.fleet.hosts import folded
from envcheck.fleet.odd import Odd
from envcheck.fleet.paired import Pair, Way
from envcheck.model import Finding, Remedy, Severity

OK, SKIP, UNKNOWN, WARN, FAIL = Severity
LOOPBACK = re.compile(r"127\.|::1$")
SHOWN = 4
DRIFT_S = 0.1
LOSS = re.compile(r"(\d+(?:\.\d+)?)% packet loss")


def findings(seen: Seen) -> list[Odd]:
    parts = (_gone, _names, _clocks, _taken, _knocked, _packets, _measured, _cards)
    return list(chain.from_iterable(part(seen) for part in parts))


def too_few(answered: int) -> Odd:
    words = "Name two at least, or look why the others do not answer."
    return _odd("between", SKIP, f"{answered} of the hosts answered: nothing to try between them", words)


def _odd(name: str, grade: Severity, seen: str, words: str, hosts: Iterable[str] = (), *commands: str) -> Odd:
    remedy = Remedy(words, commands) if words else None
    return Odd(Finding(f"fleet.{name}", grade, seen, remedy, (), "tried between the hosts"), tuple(hosts))


def _fine(name: str, seen: str) -> Odd:
    return _odd(name, OK, seen, "")


def _gone(seen: Seen) -> Iterator[Odd]:
    for host, why in seen.gone.items():
        words = "Look whether it is up, and ask again: it answered a moment ago."
        yield _odd("between", FAIL, f"{host} could not be tried with the others: {why}", words, [host])


def _names(seen: Seen) -> Iterator[Odd]:
    """A name that leads elsewhere fails; one that leads nowhere may do, where launchers are given addresses."""
    wrong: dict[tuple[str, str, Severity], list[str]] = {}
    told = {pair: found for pair, found in seen.names.items() if found is not None}
    for (host, other), found in told.items():
        there = {*seen.about[other].addresses, seen.about[other].address}
        if not found:
            wrong.setdefault((other, "nowhere", WARN), []).append(host)
        elif not there & set(found):
            loop = all(LOOPBACK.match(a) for a in found)
            to = f"{found[0]}, loopback" if loop else f"{found[0]}, which is not its address"
            wrong.setdefault((other, to, FAIL), []).append(host)
    words = "Put all names with their addresses into DNS, or into /etc/hosts on all hosts."
    nowhere = [(other, hosts) for (other, to, _), hosts in wrong.items() if to == "nowhere"]
    if nowhere:
        names = folded(other for other, _ in nowhere)
        askers = folded(dict.fromkeys(chain.from_iterable(hosts for _, hosts in nowhere)))
        yield _odd("names", WARN, f"{names}: the own names lead nowhere, asked on {askers}", words)
    for (other, to, grade), hosts in wrong.items():
        if to != "nowhere":
            name = seen.about[other].hostname
            look = f"getent hosts {name}" if re.fullmatch(r"[\w.-]+", name) else "getent hosts"
            yield _odd("names", grade, f"on {folded(hosts)} the name of {other} leads to {to}", words, hosts, look)
    if len(told) < len(seen.names):
        late = dict.fromkeys(host for (host, _), found in seen.names.items() if found is None)
        words = "Look at the name servers in /etc/resolv.conf there."
        yield _odd("names", UNKNOWN, f"names are not told in time on {folded(late)}", words, late)
    elif told and not wrong:
        yield _fine("names", f"{len({other for _, other in told})} names lead to their hosts, asked on all")


def _clocks(seen: Seen) -> Iterator[Odd]:
    """Twice: a clock that is far is named by the later look, one that ran away between the two by both."""
    if not seen.clocks:
        return
    first, last = seen.clocks[0], seen.clocks[-1]
    found = clocks.odd({**first, **last})
    yield from found
    moved = {h: last[h].middle_s - first[h].middle_s for h in first.keys() & last.keys()}
    ran = [
        h
        for h in sorted(moved)
        if last[h].low_s - first[h].high_s > DRIFT_S or first[h].low_s - last[h].high_s > DRIFT_S
    ]
    if ran:
        told = ", ".join(f"{h} {moved[h]:+.2f} s" for h in ran[:SHOWN])
        yield _odd(
            "clock", WARN, f"clocks that moved while they were watched: {told}", clocks.WORDS, ran, "timedatectl"
        )
    if last and not found and not ran:
        middles = [o.middle_s for o in last.values()]
        apart, sure = max(middles) - min(middles), max(o.high_s - o.low_s for o in last.values()) / 2
        yield _fine("clock", f"{apart:.3f} s apart at most, known to {sure:.3f} s; looked at twice")


def _taken(seen: Seen) -> Iterator[Odd]:
    by_host: dict[str, list[int]] = {}
    for host, port in seen.taken:
        by_host.setdefault(host, []).append(port)
    for host, ports in by_host.items():
        why = seen.taken[host, ports[0]]
        words = "Find who has it; a job that still runs, or a program that the system gave the port to."
        yield _odd("taken", FAIL, f"{_ports(ports)} on {host} cannot be opened: {why}", words, [host], "ss -ltnp")


def _knocked(seen: Seen) -> Iterator[Odd]:
    """Shut for all who tried is that host's fault; who comes through nowhere is at fault itself."""
    tries: dict[tuple[str, int], dict[str, str]] = {}
    for (host, other, port), why in seen.knocked.items():
        tries.setdefault((other, port), {})[host] = why
    closed = {host for host in {h for h, _, _ in seen.knocked} if _nowhere(seen, host)}
    shut: dict[tuple[str, str, str], list[int]] = {}
    for (other, port), by in tries.items():
        bad = {h: why for h, why in by.items() if why and h not in closed}
        if bad:
            whence = "" if len(bad) == len([h for h in by if h not in closed]) else folded(bad)
            shut.setdefault((other, whence, next(iter(bad.values()))), []).append(port)
    words = "Open them in the firewalls of both hosts and between: nft list ruleset, security groups."
    for host in sorted(closed):
        yield _odd("open", FAIL, f"{host} reaches none of the others' ports", words, [host], "sudo nft list ruleset")
    for (other, whence, why), ports in shut.items():
        text = f"{_ports(ports)} of {other} cannot be reached{f' from {whence}' if whence else ''}: {why}"
        yield _odd("open", FAIL, text, words, [other], "sudo nft list ruleset")
    if seen.knocked and not closed and not shut:
        yield _fine("open", f"{_ports({port for _, _, port in seen.knocked})}: open from host to host")


def _nowhere(seen: Seen, host: str) -> bool:
    """And to two hosts at least, to which others come."""
    tried = {other: why for (h, other, _), why in seen.knocked.items() if h == host}
    others = {other for (h, other, _), why in seen.knocked.items() if h != host and not why}
    return len(tried) > 1 and all(tried.values()) and others >= set(tried)


def _packets(seen: Seen) -> Iterator[Odd]:
    for (a, b), (small, full) in seen.packets.items():
        size = seen.about[a].mtu
        if small and not full:
            words = "Give interfaces, switches and tunnels on the way the same MTU: transfers hang, small ones do not."
            text = f"packets of {size} bytes from {a} do not reach {b}, small ones do"
            yield _odd(
                "packets", FAIL, text, words, [a], f"ping -M do -s {(size or 1500) - 28} {seen.about[b].address}"
            )
    untold = [pair for pair, (small, _) in seen.packets.items() if not small]
    if untold:
        words = "Open UDP between the hosts for the trial, or try by hand: ping -M do."
        yield _odd("packets", SKIP, f"UDP does not pass from {untold[0][0]} to {untold[0][1]}{_more(untold)}", words)
    if seen.packets and not untold and all(full for _, full in seen.packets.values()):
        sizes = sorted({str(seen.about[a].mtu) for a, _ in seen.packets})
        yield _fine("packets", f"packets of {', '.join(sizes)} bytes pass uncut")


def _measured(seen: Seen) -> Iterator[Odd]:
    """What was odd in its round counts when it is odd alone, too."""
    if not seen.ways:
        return
    rate, rtt = paired.usual(seen.ways) if len(seen.ways) > 1 else (0.0, 0.0)
    ways = {**seen.ways, **seen.again}
    slow = [pair for pair, way in seen.again.items() if paired.slow(way, rate)]
    late = [pair for pair, way in seen.again.items() if paired.late(way, rtt)]
    yield from _outliers("bandwidth", slow, seen, lambda way: _rate(way.rate), _rate(rate))
    yield from _outliers("latency", late, seen, lambda way: f"{way.rtt_s * 1e3:.2f} ms", f"{rtt * 1e3:.2f} ms")
    if not slow and not late:
        rates, times = [w.rate for w in ways.values()], [w.rtt_s for w in ways.values()]
        told = f"{_rate(min(rates))} to {_rate(max(rates))}, {min(times) * 1e3:.2f} to {max(times) * 1e3:.2f} ms"
        yield _fine("bandwidth", f"{len(ways)} ways: {told}; over TCP, by one stream, RDMA was not asked")


def _outliers(name: str, odd: Sequence[Pair], seen: Seen, shown: Callable[[Way], str], usual: str) -> Iterator[Odd]:
    hosts, left = paired.blamed(odd, seen.ways)
    words = "Look at cable, port, negotiated speed (ethtool) and load there; one slow host slows every collective."
    for host in hosts:
        of_it = [pair for pair in odd if host in pair]
        text = f"{host}: {shown(seen.again[of_it[0]])} with {len(of_it)} of its ways, {usual} is usual"
        yield _odd(name, WARN, text, words, [host])
    if left:
        told = ", ".join(f"{a} to {b} {shown(seen.again[a, b])}" for a, b in left[:SHOWN])
        yield _odd(
            name, WARN, f"{told}{_more(left, SHOWN)}; {usual} is usual", words, dict.fromkeys(a for a, _ in left)
        )


def _cards(seen: Seen) -> Iterator[Odd]:
    """hccn_tool's own words decide; a text that holds no loss is not told."""
    lost: dict[Pair, list[int]] = {}
    untold: dict[Pair, list[int]] = {}
    for (a, b, number), (_, text) in seen.pinged.items():
        loss = LOSS.search(text)
        if loss and float(loss[1]) > 0:
            lost.setdefault((a, b), []).append(number)
        elif not loss:
            untold.setdefault((a, b), []).append(number)
    words = "Look at the cards' ports, VLAN and routes (hccn_tool -link, -route, -gateway), and at the switch."
    for (a, b), cards in lost.items():
        look = f"hccn_tool -i {cards[0]} -ping -g address ADDRESS"
        text = f"cards {ranges(sorted(cards))} of {a} do not reach those of {b} by their own ports"
        yield _odd("hccn", FAIL, text, words, [a], look)
    for (a, b), cards in untold.items():
        first = seen.pinged[a, b, cards[0]][1].strip().splitlines()[:1]
        text = (
            f"hccn_tool's ping from {a} to {b} says nothing that could be read: {first[0][:80] if first else 'nothing'}"
        )
        yield _odd("hccn", UNKNOWN, text, "Try it by hand.", [a], f"hccn_tool -i {cards[0]} -ping -g address ADDRESS")
    if seen.pinged and not lost and not untold:
        yield _fine("hccn", f"{len(seen.pinged)} cards reach the next host's by their own ports")


def _ports(ports: Iterable[int]) -> str:
    listed = sorted(ports)
    return f"{'port' if len(listed) == 1 else 'ports'} {ranges(listed)}"


def _rate(rate: float) -> str:
    """Bytes a second as networks are sold."""
    return f"{rate * 8 / 1e9:.1f} Gbit/s" if rate > 1e8 / 8 else f"{rate * 8 / 1e6:.1f} Mbit/s"


def _more(listed: Sequence[object], shown: int = 1) -> str:
    return f" and {len(listed) - shown} more" if len(listed) > shown else ""
