"""Trying hosts against each other: names, clocks, ports, packets, bandwidth, cards' ports, RDMA.  Judges nothing.

All talk at once, a step after the other; a host that goes away on the way is left out of what follows, and told.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envcheck.fleet.clocks import Offset
from envcheck.fleet.host_summary import Own
from envcheck.fleet.peers import agent_answers, pairing, rdma_rounds, sessions
from envcheck.fleet.peers.agent_answers import About, Back
from envcheck.fleet.peers.pairing import Pair, Way
from envcheck.fleet.peers.rdma_rounds import Crossed
from envcheck.fleet.peers.sessions import GoneError, Line

T = TypeVar("T")
NAMES_S, KNOCK_S, MEASURE_S, MEASURE_MOST = 5.0, 3.0, 0.25, 64 << 20
ROUNDS, AGAIN, PARTNERS = 15, 16, 64
SLACK_S = 20.0  # for an answer, beyond what the step itself takes


@dataclass
class Seen:
    """All that was seen.  `knocked`: (from, to, port) → "" or why not; `pinged`: (from, to, card) → tool's words."""

    about: dict[str, About] = field(default_factory=dict)
    clocks: list[dict[str, Offset]] = field(default_factory=list)
    names: dict[Pair, tuple[str, ...] | None] = field(default_factory=dict)
    taken: dict[tuple[str, int], str] = field(default_factory=dict)
    knocked: dict[tuple[str, str, int], str] = field(default_factory=dict)
    ways: dict[Pair, Way] = field(default_factory=dict)
    again: dict[Pair, Way] = field(default_factory=dict)
    packets: dict[Pair, tuple[bool, bool]] = field(default_factory=dict)
    pinged: dict[tuple[str, str, int], tuple[int | None, str]] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    back: dict[Pair, Back | None] = field(default_factory=dict)
    rdma: Crossed = field(default_factory=Crossed)


@dataclass(frozen=True)
class Terms:
    """`ports` replace those that the hosts' own variables mean."""

    fanout: int = 64
    deadline_s: float = 120.0
    ports: tuple[int, ...] = ()


def tried(own: Mapping[str, Own], terms: Terms, step: Callable[[str], None] = lambda _: None) -> Seen:
    """The first host is node 0, where the launchers meet."""
    return asyncio.run(_tried(own, terms, step))


async def _tried(own: Mapping[str, Own], terms: Terms, step: Callable[[str], None]) -> Seen:
    async with sessions.opened(list(own), terms.fanout, terms.deadline_s) as (open_lines, gone):
        trial = _Trial(own, terms, open_lines, Seen(gone=dict(gone)))
        for work in (trial.clocks, trial.meet, trial.names, trial.knock, trial.measure, trial.packets, trial.cards,
                     trial.rdma, trial.clocks):  # fmt: skip
            step(work.__name__)
            await work()
        return trial.seen


class _Trial:
    def __init__(self, own: Mapping[str, Own], terms: Terms, open_lines: dict[str, Line], seen: Seen) -> None:
        self.own, self.terms, self.lines, self.seen = own, terms, open_lines, seen
        self.data: dict[str, int] = {}

    @property
    def hosts(self) -> list[str]:
        return list(self.lines)

    async def each(
        self, asked: Mapping[str, tuple[Any, ...]], timeout_s: float, read: Callable[[Any], T]
    ) -> dict[str, T]:
        """(what, words ...) of each host, all at once; without those that could not do it, or went away.

        `read` makes of an answer what it should be; a host whose answer is something else is left out from there on.
        """

        async def one(host: str, do: str, *words: Any) -> tuple[str, Any]:
            try:
                return host, await self.lines[host].ask(do, *words, timeout_s=timeout_s + SLACK_S)
            except GoneError as err:
                return host, err

        said = await asyncio.gather(*(one(host, *words) for host, words in asked.items() if host in self.lines))
        for host, answer in said:
            if isinstance(answer, GoneError):
                self.leave(host, str(answer))
        found: dict[str, T] = {}
        for host, answer in said:
            if not isinstance(answer, GoneError) and "answer" in answer:
                try:
                    found[host] = read(answer["answer"])
                except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
                    self.leave(host, "it said something that is no answer")
        return found

    def leave(self, host: str, why: str) -> None:
        self.seen.gone[host] = why
        self.lines.pop(host, None)

    async def clocks(self) -> None:
        async def one(host: str, line: Line) -> tuple[str, Offset | GoneError]:
            try:
                return host, await line.offset()
            except GoneError as err:
                return host, err

        found = dict(await asyncio.gather(*(one(*pair) for pair in self.lines.items())))
        for host, offset in found.items():
            if isinstance(offset, GoneError):
                self.leave(host, str(offset))
        self.seen.clocks.append({host: o for host, o in found.items() if isinstance(o, Offset)})

    async def meet(self) -> None:
        """Who they are; and their listeners, which end with the connection."""
        self.seen.about = await self.each(dict.fromkeys(self.hosts, ("about",)), 5, agent_answers.about)
        token, first = secrets.token_hex(16), next(iter(self.lines), "")
        wanted = {h: self.terms.ports or self._ports(h, h == first) for h in self.hosts}
        opened = await self.each({h: ("listen", token, list(wanted[h])) for h in self.hosts}, 5, agent_answers.opened)
        for host, said in opened.items():
            self.seen.taken |= {(host, port): why for port, why in said.taken.items()}
            self.data[host] = said.data
        self.open = {host: said.ports for host, said in opened.items()}

    def _ports(self, host: str, leads: bool) -> tuple[int, ...]:
        own = self.own[host]
        return tuple(sorted({*own.ports, *([own.master] if leads else [])}))

    async def names(self) -> None:
        """Each asks for the names of the others, then whose their addresses are; of a large fleet for those of its next
        ones."""
        listed = [h for h in self.hosts if h in self.seen.about]
        asked = {h: _following(listed, h, PARTNERS) for h in listed}
        words = {h: ("resolve", sorted({self.seen.about[o].hostname for o in asked[h]}), NAMES_S) for h in listed}
        for host, said in (await self.each(words, NAMES_S, agent_answers.names)).items():
            for other in asked[host]:
                self.seen.names[host, other] = said.get(self.seen.about[other].hostname)
        words = {h: ("reverse", sorted({self.seen.about[o].address for o in asked[h]}), NAMES_S) for h in listed}
        for host, back in (await self.each(words, NAMES_S, agent_answers.backs)).items():
            for other in asked[host]:
                self.seen.back[host, other] = back.get(self.seen.about[other].address)

    async def knock(self) -> None:
        """Neighbours at all ports, both ways; everybody at node 0's."""
        pairs = pairing.neighbours([h for h in self.hosts if h in self.data])
        first = next(iter(self.data), "")
        pairs += [(h, first) for h in self.hosts if h != first and (h, first) not in pairs]
        targets: dict[str, list[tuple[str, int]]] = {}
        for host, other in pairs:
            targets.setdefault(host, []).extend((other, port) for port in self.open.get(other) or [self.data[other]])
        where = {(self._at(other), port): other for listed in targets.values() for other, port in listed}
        asked = {h: ("knock", [[self._at(o), p] for o, p in listed], KNOCK_S) for h, listed in targets.items()}
        for host, said in (await self.each(asked, KNOCK_S, agent_answers.knocked)).items():
            for (address, port), why in said.items():
                if met := where.get((address, port)):
                    self.seen.knocked[host, met, port] = why

    async def measure(self) -> None:
        """In rounds, there and back; what is odd once more alone."""
        listed = [h for h in self.hosts if h in self.data and not self._shut(h)]
        for pairs in pairing.rounds(listed, ROUNDS):
            for one_way in (pairs, [(b, a) for a, b in pairs]):
                self.seen.ways |= await self._measured(one_way)
        for pair in pairing.suspects(self.seen.ways)[:AGAIN]:
            self.seen.again |= await self._measured([pair])

    def _shut(self, host: str) -> bool:
        """Nobody came through to it: to measure would only wait."""
        tries = [why for (_, to, port), why in self.seen.knocked.items() if to == host and port == self.data[host]]
        return bool(tries) and all(tries)

    async def _measured(self, pairs: Iterable[Pair]) -> dict[Pair, Way]:
        asked = {a: ("measure", self._at(b), self.data[b], MEASURE_S, MEASURE_MOST) for a, b in pairs if b in self.data}
        partner = dict(pairs)
        return {(a, partner[a]): way for a, way in (await self.each(asked, 40, agent_answers.way)).items()}

    async def packets(self) -> None:
        """One way round the ring: the whole size that the sender's interface sends."""
        listed = [h for h in self.hosts if h in self.data and h in self.seen.about]
        ring = dict(pairing.neighbours(listed)[: len(listed)]) if len(listed) > 1 else {}
        asked = {a: ("packets", self._at(b), self.data[b], m) for a, b in ring.items() if (m := self._mtu(a))}
        for host, said in (await self.each(asked, 5, agent_answers.passed)).items():
            self.seen.packets[host, ring[host]] = said

    def _mtu(self, host: str) -> int | None:
        """Two networks of different packets are the vote's finding; here each sends what it may."""
        return self.seen.about[host].mtu

    async def cards(self) -> None:
        """Each card to the next host's card of the same number, where hccn_tool is."""
        listed = [h for h in self.hosts if self.seen.about.get(h, About("", "")).hccn and self.own[h].cards]
        ring = dict(pairing.neighbours(listed)[: len(listed)]) if len(listed) > 1 else {}
        asked = {a: [[n, ip] for n, ip in sorted(self.own[b].cards.items()) if ip] for a, b in ring.items()}
        said = await self.each({a: ("hccn", pings) for a, pings in asked.items() if pings}, 20, agent_answers.pinged)
        for host, found in said.items():
            self.seen.pinged |= {(host, ring[host], number): told for number, told in found.items()}

    async def rdma(self) -> None:
        """Port to port in rounds, where tools for it are."""
        at = {h: self._at(h) for h in self.hosts if h in self.seen.about}
        met = [h for h in at if h in self.data and not self._shut(h)]
        self.seen.rdma = await rdma_rounds.crossed(self.each, at, met)

    def _at(self, host: str) -> str:
        return self.seen.about[host].address if host in self.seen.about else host


def _following(listed: Sequence[str], host: str, most: int) -> list[str]:
    at = listed.index(host)
    return [*listed[at + 1 :], *listed[:at]][:most]
