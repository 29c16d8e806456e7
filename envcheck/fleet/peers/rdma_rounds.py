"""Test RDMA ports against each other in rounds: a tool listens on one host, and another host connects to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Protocol, TypeVar

from envcheck.core.messages import _
from envcheck.fleet.peers import agent_answers, pairing, rdma_output, rdma_tools
from envcheck.fleet.peers.pairing import HostPair
from envcheck.fleet.peers.rdma_output import RdmaOutcome, RdmaVerdict
from envcheck.fleet.peers.rdma_tools import RdmaEndpoint, RdmaInventory, RdmaTrial

T = TypeVar("T")
ToolResults = Mapping[str, dict[str, tuple[int | None, str]]]
ListenerResults = Mapping[str, dict[str, tuple[str, bool]]]
ROUNDS, AGAIN = 5, 8
TRY_S, LISTEN_S, LEFT_S = (
    20.0,
    6.0,
    1.0,
)  # seconds: a trial, its listener's start, its listener's report
LATE_MORE_S = 2e-5  # and slower by at least this, for more switches


class AskEachHost(Protocol):
    """Send a request to each host in parallel; return the decoded answers."""

    def __call__(
        self, asked: Mapping[str, tuple[Any, ...]], timeout_s: float, read: Callable[[Any], T]
    ) -> Awaitable[dict[str, T]]: ...


@dataclass
class RdmaObservations:
    """`has`: inventory of each host except the `silent`; `shut`: hosts that nobody reaches.

    `toolless`: pairs of hosts without a common kind of port or tool.
    """

    has: dict[str, RdmaInventory] = field(default_factory=dict)
    ends: dict[str, list[RdmaEndpoint]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    toolless: list[HostPair] = field(default_factory=list)
    outcomes: dict[RdmaTrial, RdmaOutcome] = field(default_factory=dict)
    again: dict[RdmaTrial, RdmaOutcome] = field(default_factory=dict)
    shut: list[str] = field(default_factory=list)


async def run_rounds(each: AskEachHost, at: Mapping[str, str], hosts: Sequence[str]) -> RdmaObservations:
    """Test all pairs of `hosts`; `at` are the addresses.  Other hosts only report what they have."""
    seen = RdmaObservations(
        await each({host: ("rdma", list(rdma_tools.TOOLS)) for host in at}, 5, agent_answers.read_rdma)
    )
    seen.silent = [host for host in at if host not in seen.has]
    seen.ends = {host: rdma_tools.list_endpoints(host, has) for host, has in seen.has.items()}
    seen.shut = [host for host, ends in seen.ends.items() if ends and host not in hosts]
    listed = [host for host in hosts if seen.ends.get(host)]
    for pairs in pairing.plan_rounds(listed, ROUNDS):
        tries = [(pair, _plan_trials(seen, *pair)) for pair in pairs]
        seen.toolless += [pair for pair, found in tries if not found]
        seen.outcomes |= await _run_round(each, at, [one for _unused, found in tries for one in found])
    for one in find_slow_trials(seen.outcomes)[:AGAIN]:
        seen.again |= await _run_round(each, at, [one])
    return seen


def _plan_trials(seen: RdmaObservations, a: str, b: str) -> list[RdmaTrial]:
    return rdma_tools.plan_trials(seen.has[a], seen.has[b], seen.ends[a], seen.ends[b])


async def _run_round(
    each: AskEachHost, at: Mapping[str, str], tries: Sequence[RdmaTrial]
) -> dict[RdmaTrial, RdmaOutcome]:
    """Run one round; a host has one partner in it, so that its port names the trial on either side."""
    keyed = {(one.b.host, str(number)): one for number, one in enumerate(tries)}
    listening: dict[str, list[Any]] = {}
    for (host, key), one in keyed.items():
        listening.setdefault(host, []).append(
            [key, rdma_tools.build_listen_command(one), rdma_tools.TOOLS[one.tool].by_tcp]
        )
    bound_s = LISTEN_S + TRY_S + LEFT_S
    asked = {host: ("serve", words, bound_s) for host, words in listening.items()}
    ports = await each(asked, LISTEN_S, agent_answers.read_listening_ports)
    calling: dict[str, list[Any]] = {}
    for (host, key), one in keyed.items():
        if port := ports.get(host, {}).get(key):
            calling.setdefault(one.a.host, []).append([key, rdma_tools.build_call_command(one, at[host], port)])
    results = await each(
        {host: ("call", words, TRY_S) for host, words in calling.items()}, TRY_S, agent_answers.read_tool_results
    )
    heard = await each(dict.fromkeys(listening, ("served", LEFT_S)), LEFT_S, agent_answers.read_listener_results)
    return dict(_read_outcomes(keyed, ports, results, heard))


def _read_outcomes(
    keyed: Mapping[tuple[str, str], RdmaTrial],
    ports: Mapping[str, dict[str, int]],
    results: ToolResults,
    heard: ListenerResults,
) -> Iterator[tuple[RdmaTrial, RdmaOutcome]]:
    for (host, key), one in keyed.items():
        code, words = results.get(one.a.host, {}).get(key, (None, None))
        other, met = heard.get(host, {}).get(key, ("", True))
        if code is None and words is not None and not met and rdma_tools.TOOLS[one.tool].by_tcp:
            yield (
                one,
                RdmaOutcome(
                    RdmaVerdict.UNMET, why=_("no connection reached its TCP port {ports}", ports=ports[host][key])
                ),
            )
        elif words is not None:
            yield one, rdma_output.read_outcome(one.tool, code, words, other)
        elif ports.get(host, {}).get(key) == 0:
            yield one, rdma_output.read_failed_listener(other)
        else:
            yield one, RdmaOutcome(RdmaVerdict.UNREAD)


def find_slow_trials(outcomes: Mapping[RdmaTrial, RdmaOutcome]) -> list[RdmaTrial]:
    """Return trials with less than half the typical rate or more than three times the typical time."""
    return [
        one
        for of_kind in group_comparable(outcomes)
        for one in of_kind
        if _is_slow(outcomes[one], find_usual_outcome(outcomes, of_kind))
    ]


def group_comparable(outcomes: Mapping[RdmaTrial, RdmaOutcome]) -> list[list[RdmaTrial]]:
    """Return trials that can be compared: same port speed and tool, at least three."""
    found: dict[tuple[str, str, str], list[RdmaTrial]] = {}
    for one, outcome in outcomes.items():
        if outcome.rate is not None or outcome.time_s is not None:
            slower, faster = sorted((one.a.port.rate, one.b.port.rate))
            found.setdefault((one.tool, slower, faster), []).append(one)
    return [listed for listed in found.values() if len(listed) > 2]


def find_usual_outcome(outcomes: Mapping[RdmaTrial, RdmaOutcome], listed: Sequence[RdmaTrial]) -> RdmaOutcome:
    """Return the better quartile, as `pairing.find_usual_speed` does."""
    rates = [rate for one in listed if (rate := outcomes[one].rate) is not None]
    times = [time_s for one in listed if (time_s := outcomes[one].time_s) is not None]
    return RdmaOutcome(
        RdmaVerdict.WELL,
        quantiles(rates, n=4, method="inclusive")[2] if rates else None,
        quantiles(times, n=4, method="inclusive")[0] if times else None,
    )


def _is_slow(found: RdmaOutcome, best: RdmaOutcome) -> bool:
    if found.rate is not None and best.rate is not None:
        return found.rate < pairing.SLOW * best.rate
    if found.time_s is not None and best.time_s is not None:
        return found.time_s > max(pairing.LATE * best.time_s, best.time_s + LATE_MORE_S)
    return False
