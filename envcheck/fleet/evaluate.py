"""From what the hosts sent to one judgement of the fleet; each host's document is let go as soon as it is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envcheck.checks.results import merge_parts
from envcheck.collect.fact_reader import read_facts
from envcheck.core.facts import Facts
from envcheck.core.model import Answer, Finding
from envcheck.fleet import clocks, connectivity, consistency, majority
from envcheck.fleet.host_summary import Own
from envcheck.fleet.host_summary import read as own_read
from envcheck.fleet.outlier import Odd
from envcheck.fleet.output import HostOutput
from envcheck.report.contents import HostReport, Report

Judge = Callable[[Facts], list[Finding]]


@dataclass(frozen=True)
class Host:
    """`said` is empty for a host that did not answer: it does not vote.  `facts` are kept where a page wants them."""

    name: str
    findings: tuple[Finding, ...]
    said: Mapping[str, consistency.Values] = field(default_factory=dict)
    facts: Facts | None = None
    offset: clocks.Offset | None = None
    own: Own | None = None

    @property
    def answered(self) -> bool:
        return bool(self.said)


class Bench:
    """Judges one host after the other, and keeps what is alike once."""

    def __init__(self, judge: Judge, device: str = "auto", keep: bool = False) -> None:
        self._judge, self._device, self._keep = judge, device, keep
        self._findings: dict[Finding, Finding] = {}
        self._values: dict[tuple[tuple[str, str], ...], consistency.Values] = {}

    def said(self, said: HostOutput) -> Host:
        found = connectivity.reached(said)
        if said.answers is None:
            return Host(said.host, (found,))
        return replace(self.answers(said.host, said.answers, "auto", (found,)), offset=said.offset)

    def answers(self, name: str, answers: Mapping[str, Answer], device: str, more: Sequence[Finding] = ()) -> Host:
        told = read_facts(answers, device if self._device == "auto" else self._device)
        findings = [*more, *self._judge(told)]
        said = {line: self._once(values) for line, values in consistency.values(told).items()}
        kept = replace(told, answers={}) if self._keep else None
        return Host(name, tuple(self._findings.setdefault(f, f) for f in findings), said, kept, None, own_read(told))

    def _once(self, values: consistency.Values) -> consistency.Values:
        return self._values.setdefault(tuple(sorted(values.items())), values)


def compare_hosts(hosts: Iterable[Host], between: Sequence[Odd] | None = None) -> Report:
    """The hosts in their order, with the vote of those that answered; `between` is what was tried between them."""
    listed = tuple(hosts)
    found = majority.votes({host.name: host.said for host in listed if host.answered})
    rough = clocks.odd({host.name: host.offset for host in listed if host.offset})
    odd = [*majority.odd(found), *(rough if between is None else between)]
    named = _named(odd)
    reports = (HostReport(h.findings, h.facts or Facts(), h.name, h.answered, named.get(h.name, ())) for h in listed)
    return Report(tuple(reports), tuple(found), tuple(merge_parts(one.finding for one in odd)))


def _named(odd: Iterable[Odd]) -> dict[str, tuple[Finding, ...]]:
    by_host: dict[str, list[Finding]] = {}
    for one in odd:
        for host in one.hosts:
            by_host.setdefault(host, []).append(one.finding)
    return {host: tuple(merge_parts(found)) for host, found in by_host.items()}
