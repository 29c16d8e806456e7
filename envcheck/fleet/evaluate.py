"""Evaluate the hosts' answers and compare the fleet; each host's facts are released once it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envcheck.checks.results import merge_parts
from envcheck.collect.fact_reader import read_facts
from envcheck.core.facts import Facts
from envcheck.core.messages import NOTHING, Message
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


@dataclass(frozen=True)
class KeptParts:
    """What a report needs of each host: ten thousand hosts with all parts take a hundred times the memory.

    `passed` are the findings of checks that found no problem; without them, one of each status is kept.  `summary` is
    what tests between hosts and a rank table need.
    """

    facts: bool = False
    passed: bool = True
    summary: bool = True


ALL_BUT_FACTS = KeptParts()


class FleetEvaluator:
    """Evaluates one host after the other; equal findings and values are stored once."""

    def __init__(self, judge: Judge, device: str = "auto", kept: KeptParts = ALL_BUT_FACTS) -> None:
        self._judge, self._device, self._kept = judge, device, kept
        self._findings: dict[Finding, Finding] = {}
        self._lists: dict[tuple[Finding, ...], tuple[Finding, ...]] = {}
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
        kept = replace(facts, answers={}) if self._kept.facts else None
        own = own_read(facts) if self._kept.summary else None
        return JudgedHost(name, self.keep_findings(findings), shared, kept, None, own)

    @property
    def keeps_facts(self) -> bool:
        """Whether hosts keep their facts, for reports that show them."""
        return self._kept.facts

    def share_parts(self, host: JudgedHost) -> JudgedHost:
        """Return a host that another process judged, with findings and values stored once."""
        values = {n: self._share_values(v) for n, v in host.values.items()}
        return replace(host, findings=self.keep_findings(host.findings), values=values)

    def keep_findings(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that a host keeps, equal ones stored once."""
        listed = findings if self._kept.passed else _drop_passed(findings)
        shared = tuple(self._findings.setdefault(f, f) for f in listed)
        return shared if self._kept.passed else self._lists.setdefault(shared, shared)

    def _share_values(self, values: consistency.Values) -> consistency.Values:
        return self._values.setdefault(tuple(sorted(values.items())), values)


def _drop_passed(findings: Iterable[Finding]) -> list[Finding]:
    """Return the problems and the waived findings, and of the others one without words for each status."""
    listed = list(findings)
    kept = [f for f in listed if f.status.is_problem or f.waived]
    return [
        *kept,
        *(Finding("", status, NOTHING) for status in sorted({f.status for f in listed} - {f.status for f in kept})),
    ]


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
