"""RDMA ports tried against each other in rounds: a tool listens on one host, and is called on the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Protocol, TypeVar

from envcheck.fleet.peers import agent_answers, pairing, rdma, rdma_output
from envcheck.fleet.peers.pairing import Pair
from envcheck.fleet.peers.rdma import End, Has, Try
from envcheck.fleet.peers.rdma_output import Kind, Outcome

T = TypeVar("T")
Tools = Mapping[str, dict[str, tuple[int | None, str]]]
Heard = Mapping[str, dict[str, tuple[str, bool]]]
ROUNDS, AGAIN = 5, 8
TRY_S, LISTEN_S, LEFT_S = 20.0, 6.0, 1.0  # a try, until its other side listens, until that has told its end
LATE_MORE_S = 2e-5  # and at least this much later: switches more


class Each(Protocol):
    def __call__(
        self, asked: Mapping[str, tuple[Any, ...]], timeout_s: float, read: Callable[[Any], T]
    ) -> Awaitable[dict[str, T]]: ...


@dataclass
class Crossed:
    """`has`: what each host said, but the `silent`; `shut` are those that nobody can meet; `toolless`: pairs of hosts
    without ports alike, or without a tool in common."""

    has: dict[str, Has] = field(default_factory=dict)
    ends: dict[str, list[End]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    toolless: list[Pair] = field(default_factory=list)
    outcomes: dict[Try, Outcome] = field(default_factory=dict)
    again: dict[Try, Outcome] = field(default_factory=dict)
    shut: list[str] = field(default_factory=list)


async def crossed(each: Each, at: Mapping[str, str], hosts: Sequence[str]) -> Crossed:
    """`at`: the address of each host; `hosts`: those that can be met there, the others only tell what they have."""
    seen = Crossed(await each({host: ("rdma", list(rdma.TOOLS)) for host in at}, 5, agent_answers.rdma))
    seen.silent = [host for host in at if host not in seen.has]
    seen.ends = {host: rdma.ends(host, has) for host, has in seen.has.items()}
    seen.shut = [host for host, ends in seen.ends.items() if ends and host not in hosts]
    listed = [host for host in hosts if seen.ends.get(host)]
    for pairs in pairing.rounds(listed, ROUNDS):
        tries = [(pair, _tries(seen, *pair)) for pair in pairs]
        seen.toolless += [pair for pair, found in tries if not found]
        seen.outcomes |= await _round(each, at, [one for _, found in tries for one in found])
    for one in slow(seen.outcomes)[:AGAIN]:
        seen.again |= await _round(each, at, [one])
    return seen


def _tries(seen: Crossed, a: str, b: str) -> list[Try]:
    return rdma.tries(seen.has[a], seen.has[b], seen.ends[a], seen.ends[b])


async def _round(each: Each, at: Mapping[str, str], tries: Sequence[Try]) -> dict[Try, Outcome]:
    """A host has one partner in it, so that a try has a name of its own on either side: its port's."""
    keyed = {(one.b.host, str(number)): one for number, one in enumerate(tries)}
    listening: dict[str, list[Any]] = {}
    for (host, key), one in keyed.items():
        listening.setdefault(host, []).append([key, rdma.listens(one), rdma.TOOLS[one.tool].by_tcp])
    bound_s = LISTEN_S + TRY_S + LEFT_S
    asked = {host: ("serve", words, bound_s) for host, words in listening.items()}
    ports = await each(asked, LISTEN_S, agent_answers.listening)
    calling: dict[str, list[Any]] = {}
    for (host, key), one in keyed.items():
        if port := ports.get(host, {}).get(key):
            calling.setdefault(one.a.host, []).append([key, rdma.calls(one, at[host], port)])
    said = await each({host: ("call", words, TRY_S) for host, words in calling.items()}, TRY_S, agent_answers.tools)
    heard = await each(dict.fromkeys(listening, ("served", LEFT_S)), LEFT_S, agent_answers.heard)
    return dict(_outcomes(keyed, ports, said, heard))


def _outcomes(
    keyed: Mapping[tuple[str, str], Try], ports: Mapping[str, dict[str, int]], said: Tools, heard: Heard
) -> Iterator[tuple[Try, Outcome]]:
    for (host, key), one in keyed.items():
        code, words = said.get(one.a.host, {}).get(key, (None, None))
        other, met = heard.get(host, {}).get(key, ("", True))
        if code is None and words is not None and not met and rdma.TOOLS[one.tool].by_tcp:
            yield one, Outcome(Kind.UNMET, why=f"nothing came to its TCP port {ports[host][key]}")
        elif words is not None:
            yield one, rdma_output.outcome(one.tool, code, words, other)
        elif ports.get(host, {}).get(key) == 0:
            yield one, rdma_output.unheard(other)
        else:
            yield one, Outcome(Kind.UNREAD)


def slow(outcomes: Mapping[Try, Outcome]) -> list[Try]:
    """Whose rate is under half of what is usual, or whose time over three times of it."""
    return [one for of_kind in kinds(outcomes) for one in of_kind if _odd(outcomes[one], usual(outcomes, of_kind))]


def kinds(outcomes: Mapping[Try, Outcome]) -> list[list[Try]]:
    """What may be compared: ports of the same speed, by the same tool.  Of less than three none is odd."""
    found: dict[tuple[str, str, str], list[Try]] = {}
    for one, outcome in outcomes.items():
        if outcome.rate is not None or outcome.time_s is not None:
            slower, faster = sorted((one.a.port.rate, one.b.port.rate))
            found.setdefault((one.tool, slower, faster), []).append(one)
    return [listed for listed in found.values() if len(listed) > 2]


def usual(outcomes: Mapping[Try, Outcome], listed: Sequence[Try]) -> Outcome:
    """The better quartile, as paired.usual."""
    rates = [rate for one in listed if (rate := outcomes[one].rate) is not None]
    times = [time_s for one in listed if (time_s := outcomes[one].time_s) is not None]
    return Outcome(
        Kind.WELL,
        quantiles(rates, n=4, method="inclusive")[2] if rates else None,
        quantiles(times, n=4, method="inclusive")[0] if times else None,
    )


def _odd(found: Outcome, best: Outcome) -> bool:
    if found.rate is not None and best.rate is not None:
        return found.rate < pairing.SLOW * best.rate
    if found.time_s is not None and best.time_s is not None:
        return found.time_s > max(pairing.LATE * best.time_s, best.time_s + LATE_MORE_S)
    return False
