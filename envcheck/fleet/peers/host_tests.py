"""Test hosts against each other: names, clocks, ports, packets, bandwidth, cards' ports, RDMA.  Evaluates nothing.

All hosts take part in one step after the other; a host that drops out is recorded and excluded from later steps.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envcheck.core.messages import _
from envcheck.fleet.clocks import ClockOffset
from envcheck.fleet.host_summary import HostSummary
from envcheck.fleet.peers import agent_answers, pairing, rdma_rounds, sessions
from envcheck.fleet.peers.agent_answers import AgentInfo, ReverseName
from envcheck.fleet.peers.pairing import HostPair, PairSpeed
from envcheck.fleet.peers.rdma_rounds import RdmaObservations
from envcheck.fleet.peers.sessions import AgentSession, HostGoneError

T = TypeVar("T")
NAMES_S, KNOCK_S, MEASURE_S, MEASURE_MOST = 5.0, 3.0, 0.25, 64 << 20
ROUNDS, AGAIN, PARTNERS = 15, 16, 64
SLACK_S = 20.0  # time for an answer in addition to the step's own


@dataclass
class PeerObservations:
    """All results.  `knocked`: (from, to, port) → "" or why not; `pinged`: (from, to, card) → tool's output."""

    about: dict[str, AgentInfo] = field(default_factory=dict)
    clocks: list[dict[str, ClockOffset]] = field(default_factory=list)
    names: dict[HostPair, tuple[str, ...] | None] = field(default_factory=dict)
    taken: dict[tuple[str, int], str] = field(default_factory=dict)
    knocked: dict[tuple[str, str, int], str] = field(default_factory=dict)
    ways: dict[HostPair, PairSpeed] = field(default_factory=dict)
    again: dict[HostPair, PairSpeed] = field(default_factory=dict)
    packets: dict[HostPair, tuple[bool, bool]] = field(default_factory=dict)
    pinged: dict[tuple[str, str, int], tuple[int | None, str]] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    back: dict[HostPair, ReverseName | None] = field(default_factory=dict)
    rdma: RdmaObservations = field(default_factory=RdmaObservations)


@dataclass(frozen=True)
class PeerTestTerms:
    """`ports` replace those from the hosts' own variables."""

    fanout: int = 64
    deadline_s: float = 120.0
    ports: tuple[int, ...] = ()


def run_peer_tests(
    own: Mapping[str, HostSummary], terms: PeerTestTerms, step: Callable[[str], None] = lambda _: None
) -> PeerObservations:
    """Run all tests and return their results.  The first host is node 0, the rendezvous of launchers."""
    return asyncio.run(_run_steps(own, terms, step))


async def _run_steps(
    own: Mapping[str, HostSummary], terms: PeerTestTerms, step: Callable[[str], None]
) -> PeerObservations:
    async with sessions.open_sessions(list(own), terms.fanout, terms.deadline_s) as (open_lines, gone):
        trial = _PeerTrial(own, terms, open_lines, PeerObservations(gone=dict(gone)))
        for work in (trial.clocks, trial.meet, trial.names, trial.knock, trial.measure, trial.packets, trial.cards,
                     trial.rdma, trial.clocks):  # fmt: skip
            step(work.__name__)
            await work()
        return trial.seen


class _PeerTrial:
    def __init__(
        self,
        own: Mapping[str, HostSummary],
        terms: PeerTestTerms,
        open_lines: dict[str, AgentSession],
        seen: PeerObservations,
    ) -> None:
        self.own, self.terms, self.lines, self.seen = own, terms, open_lines, seen
        self.data: dict[str, int] = {}

    @property
    def hosts(self) -> list[str]:
        """The hosts that still respond."""
        return list(self.lines)

    async def ask_each_host(
        self, asked: Mapping[str, tuple[Any, ...]], timeout_s: float, read: Callable[[Any], T]
    ) -> dict[str, T]:
        """Send a request (name, arguments ...) to each host in parallel; return the answers without failed hosts.

        `read` decodes an answer; a host with an invalid answer is excluded from then on.
        """

        async def one(host: str, do: str, *words: Any) -> tuple[str, Any]:
            try:
                return host, await self.lines[host].ask_agent(do, *words, timeout_s=timeout_s + SLACK_S)
            except HostGoneError as err:
                return host, err

        answers = await asyncio.gather(*(one(host, *words) for host, words in asked.items() if host in self.lines))
        for host, answer in answers:
            if isinstance(answer, HostGoneError):
                self.drop_host(host, answer.reason)
        found: dict[str, T] = {}
        for host, answer in answers:
            if not isinstance(answer, HostGoneError) and "answer" in answer:
                try:
                    found[host] = read(answer["answer"])
                except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
                    self.drop_host(host, _("invalid response"))
        return found

    def drop_host(self, host: str, why: str) -> None:
        """Record why the host dropped out, and exclude it."""
        self.seen.gone[host] = why
        self.lines.pop(host, None)

    async def clocks(self) -> None:
        """Measure each host's clock offset."""

        async def one(host: str, line: AgentSession) -> tuple[str, ClockOffset | HostGoneError]:
            try:
                return host, await line.measure_offset()
            except HostGoneError as err:
                return host, err

        found = dict(await asyncio.gather(*(one(*pair) for pair in self.lines.items())))
        for host, offset in found.items():
            if isinstance(offset, HostGoneError):
                self.drop_host(host, offset.reason)
        self.seen.clocks.append({host: o for host, o in found.items() if isinstance(o, ClockOffset)})

    async def meet(self) -> None:
        """Collect the hosts' facts and start their listeners, which end with the connection."""
        self.seen.about = await self.ask_each_host(dict.fromkeys(self.hosts, ("about",)), 5, agent_answers.read_about)
        token, first = secrets.token_hex(16), next(iter(self.lines), "")
        wanted = {h: self.terms.ports or self._list_wanted_ports(h, h == first) for h in self.hosts}
        opened = await self.ask_each_host(
            {h: ("listen", token, list(wanted[h])) for h in self.hosts}, 5, agent_answers.read_opened
        )
        for host, ports in opened.items():
            self.seen.taken |= {(host, port): why for port, why in ports.taken.items()}
            self.data[host] = ports.data
        self.open = {host: ports.ports for host, ports in opened.items()}

    def _list_wanted_ports(self, host: str, leads: bool) -> tuple[int, ...]:
        own = self.own[host]
        return tuple(sorted({*own.ports, *([own.master] if leads else [])}))

    async def names(self) -> None:
        """Resolve the other hosts' names on each host, then their addresses; in a large fleet those of the next hosts
        only.
        """
        listed = [h for h in self.hosts if h in self.seen.about]
        asked = {h: _list_following_hosts(listed, h, PARTNERS) for h in listed}
        words = {h: ("resolve", sorted({self.seen.about[o].hostname for o in asked[h]}), NAMES_S) for h in listed}
        for host, names in (await self.ask_each_host(words, NAMES_S, agent_answers.read_names)).items():
            for other in asked[host]:
                self.seen.names[host, other] = names.get(self.seen.about[other].hostname)
        words = {h: ("reverse", sorted({self.seen.about[o].address for o in asked[h]}), NAMES_S) for h in listed}
        for host, back in (await self.ask_each_host(words, NAMES_S, agent_answers.read_reverse_names)).items():
            for other in asked[host]:
                self.seen.back[host, other] = back.get(self.seen.about[other].address)

    async def knock(self) -> None:
        """Connect to all ports of neighbours in both directions, and from every host to node 0."""
        pairs = pairing.pair_neighbours([h for h in self.hosts if h in self.data])
        first = next(iter(self.data), "")
        pairs += [(h, first) for h in self.hosts if h != first and (h, first) not in pairs]
        targets: dict[str, list[tuple[str, int]]] = {}
        for host, other in pairs:
            targets.setdefault(host, []).extend((other, port) for port in self.open.get(other) or [self.data[other]])
        where = {(self._get_address(other), port): other for listed in targets.values() for other, port in listed}
        asked = {h: ("knock", [[self._get_address(o), p] for o, p in listed], KNOCK_S) for h, listed in targets.items()}
        for host, reasons in (await self.ask_each_host(asked, KNOCK_S, agent_answers.read_knocks)).items():
            for (address, port), why in reasons.items():
                if met := where.get((address, port)):
                    self.seen.knocked[host, met, port] = why

    async def measure(self) -> None:
        """Measure in rounds, in both directions; repeat slow pairs alone."""
        listed = [h for h in self.hosts if h in self.data and not self._is_unreachable(h)]
        for pairs in pairing.plan_rounds(listed, ROUNDS):
            for one_way in (pairs, [(b, a) for a, b in pairs]):
                self.seen.ways |= await self._measure_pairs(one_way)
        for pair in pairing.find_suspects(self.seen.ways)[:AGAIN]:
            self.seen.again |= await self._measure_pairs([pair])

    def _is_unreachable(self, host: str) -> bool:
        """Return whether nobody reached the host: a measurement would only time out."""
        tries = [why for (_, to, port), why in self.seen.knocked.items() if to == host and port == self.data[host]]
        return bool(tries) and all(tries)

    async def _measure_pairs(self, pairs: Iterable[HostPair]) -> dict[HostPair, PairSpeed]:
        asked = {
            a: ("measure", self._get_address(b), self.data[b], MEASURE_S, MEASURE_MOST)
            for a, b in pairs
            if b in self.data
        }
        partner = dict(pairs)
        return {
            (a, partner[a]): way for a, way in (await self.ask_each_host(asked, 40, agent_answers.read_speed)).items()
        }

    async def packets(self) -> None:
        """Send full-size packets of the sender's interface once around the ring."""
        listed = [h for h in self.hosts if h in self.data and h in self.seen.about]
        ring = dict(pairing.pair_neighbours(listed)[: len(listed)]) if len(listed) > 1 else {}
        asked = {
            a: ("packets", self._get_address(b), self.data[b], m) for a, b in ring.items() if (m := self._get_mtu(a))
        }
        for host, arrived in (await self.ask_each_host(asked, 5, agent_answers.read_packets)).items():
            self.seen.packets[host, ring[host]] = arrived

    def _get_mtu(self, host: str) -> int | None:
        """Return the sender's MTU; different MTUs are reported by the comparison of hosts."""
        return self.seen.about[host].mtu

    async def cards(self) -> None:
        """Ping from each card to the next host's card of the same number, where hccn_tool is installed."""
        listed = [h for h in self.hosts if self.seen.about.get(h, AgentInfo("", "")).hccn and self.own[h].cards]
        ring = dict(pairing.pair_neighbours(listed)[: len(listed)]) if len(listed) > 1 else {}
        asked = {a: [[n, ip] for n, ip in sorted(self.own[b].cards.items()) if ip] for a, b in ring.items()}
        pings = await self.ask_each_host(
            {a: ("hccn", pings) for a, pings in asked.items() if pings}, 20, agent_answers.read_pings
        )
        for host, found in pings.items():
            self.seen.pinged |= {(host, ring[host], number): result for number, result in found.items()}

    async def rdma(self) -> None:
        """Test RDMA port to port in rounds, where tools for it are installed."""
        at = {h: self._get_address(h) for h in self.hosts if h in self.seen.about}
        met = [h for h in at if h in self.data and not self._is_unreachable(h)]
        self.seen.rdma = await rdma_rounds.run_rounds(self.ask_each_host, at, met)

    def _get_address(self, host: str) -> str:
        return self.seen.about[host].address if host in self.seen.about else host


def _list_following_hosts(listed: Sequence[str], host: str, most: int) -> list[str]:
    at = listed.index(host)
    return [*listed[at + 1 :], *listed[:at]][:most]
