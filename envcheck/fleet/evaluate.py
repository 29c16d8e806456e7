"""Evaluate the hosts' answers and compare the fleet; each host's facts are released once it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envcheck.checks.results import merge_parts
from envcheck.collect.fact_reader import read_facts
from envcheck.core.facts import Facts
from envcheck.core.messages import Message
from envcheck.core.model import Answer, Finding, Status, manual
from envcheck.fleet import clocks, connectivity, consistency, majority
from envcheck.fleet.host_summary import HostSummary
from envcheck.fleet.host_summary import summarise_host as own_read
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.output import HostOutput
from envcheck.report.contents import DoctorReport, HostReport

Judge = Callable[[Facts], list[Finding]]


@dataclass(frozen=True)
class JudgedHost:
    """A host's findings and votes; `values` are empty for a host that did not respond and so does not vote.

    `facts` are kept only for reports that show them.
    """

    name: str
    findings: tuple[Finding, ...]
    values: Mapping[str, consistency.Values] = field(default_factory=dict)
    facts: Facts | None = None
    offset: clocks.ClockOffset | None = None
    own: HostSummary | None = None

    @property
    def has_answered(self) -> bool:
        """Whether the host responded."""
        return bool(self.values)


class FleetEvaluator:
    """Evaluates one host after the other; equal findings and values are stored once."""

    def __init__(self, judge: Judge, device: str = "auto", keep: bool = False) -> None:
        self._judge, self._device, self._keep = judge, device, keep
        self._findings: dict[Finding, Finding] = {}
        self._values: dict[tuple[tuple[str, str], ...], consistency.Values] = {}

    def judge_output(self, output: HostOutput) -> JudgedHost:
        """Return the host evaluated from its output, with a connectivity finding."""
        found = connectivity.judge_answer(output)
        if output.answers is None:
            return JudgedHost(output.host, (found,))
        return replace(self.judge_answers(output.host, output.answers, "auto", (found,)), offset=output.offset)

    def judge_unreadable(self, name: str, why: Message, advice: Message) -> JudgedHost:
        """Return a host whose recording cannot be read; the others are judged all the same."""
        return JudgedHost(name, (Finding(connectivity.NAME, Status.FAIL, why, manual(advice)),))

    def judge_answers(
        self, name: str, answers: Mapping[str, Answer], device: str, more: Sequence[Finding] = ()
    ) -> JudgedHost:
        """Return the host evaluated from collected answers; `more` findings come first."""
        facts = read_facts(answers, device if self._device == "auto" else self._device)
        findings = [*more, *self._judge(facts)]
        shared = {line: self._share_values(values) for line, values in consistency.read_values(facts).items()}
        kept = replace(facts, answers={}) if self._keep else None
        return JudgedHost(
            name, tuple(self._findings.setdefault(f, f) for f in findings), shared, kept, None, own_read(facts)
        )

    @property
    def keeps_facts(self) -> bool:
        """Whether hosts keep their facts, for reports that show them."""
        return self._keep

    def share_parts(self, host: JudgedHost) -> JudgedHost:
        """Return a host that another process judged, with findings and values stored once."""
        findings = tuple(self._findings.setdefault(f, f) for f in host.findings)
        return replace(host, findings=findings, values={n: self._share_values(v) for n, v in host.values.items()})

    def _share_values(self, values: consistency.Values) -> consistency.Values:
        return self._values.setdefault(tuple(sorted(values.items())), values)


def compare_hosts(hosts: Iterable[JudgedHost], between: Sequence[Outlier] | None = None) -> DoctorReport:
    """Return the report on all hosts, in order, with the votes of those that responded.

    `between` are the results of tests between hosts; None if none were run.
    """
    listed = tuple(hosts)
    found = majority.count_votes({host.name: host.values for host in listed if host.has_answered})
    rough = clocks.find_outliers({host.name: host.offset for host in listed if host.offset})
    odd = [*majority.find_outliers(found), *(rough if between is None else between)]
    named = _group_by_host(odd)
    reports = (
        HostReport(h.findings, h.facts or Facts(), h.name, h.has_answered, named.get(h.name, ())) for h in listed
    )
    return DoctorReport(tuple(reports), tuple(found), tuple(merge_parts(one.finding for one in odd)))


def _group_by_host(odd: Iterable[Outlier]) -> dict[str, tuple[Finding, ...]]:
    by_host: dict[str, list[Finding]] = {}
    for one in odd:
        for host in one.hosts:
            by_host.setdefault(host, []).append(one.finding)
    return {host: tuple(merge_parts(found)) for host, found in by_host.items()}
