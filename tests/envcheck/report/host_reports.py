"""Reports of many hosts: simulated machines with faults, and one of strangers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from envcheck import checks
from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status, fix, manual
from envcheck.fleet import evaluate
from envcheck.fleet.outlier import Outlier
from envcheck.fleet.output import HostOutput
from envcheck.report import DoctorReport, HostReport
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.report.report_helpers import EVIL, NOW, make_hostile_report

FAULTS: tuple[tuple[str, ...], ...] = ((), ("card-lost=3",), ("hot=101",), ("driver-old",), ())
TRIED = (
    Outlier(Finding("fleet.clock", Status.FAIL, "clocks: node02 5.0 s ahead of most", manual("Look.")), ("node02",)),
    Outlier(Finding("fleet.names", Status.OK, "30 names lead where they should")),
)


def make_silent_output(name: str) -> HostOutput:
    said = HostOutput(name, status=255)
    said.add_error_line(f"ssh: connect to host {name} port 22: Connection refused".encode())
    return said


def _compare_hosts(hosts: Iterable[evaluate.JudgedHost], tried: Sequence[Outlier] | None = None) -> DoctorReport:
    return replace(evaluate.compare_hosts(hosts, tried), made=NOW)


@cache
def make_faulty_report(faults: Sequence[tuple[str, ...]] = FAULTS, tried: Sequence[Outlier] = TRIED) -> DoctorReport:
    """node01 and so on with these faults, and one more that does not answer."""
    bench = evaluate.FleetEvaluator(lambda told: checks.run_checks(told), kept=evaluate.KeptParts(facts=True))
    hosts = []
    for number, wishes in enumerate(faults):
        with simulate_machine("atlas-800t-a2", wishes) as machine:
            hosts.append(bench.judge_answers(f"node{number + 1:02d}", facts.ask_machine(machine), "auto"))
    return _compare_hosts([*hosts, bench.judge_output(make_silent_output(f"node{len(faults) + 1:02d}"))], tried)


def make_healthy_report() -> DoctorReport:
    bench = evaluate.FleetEvaluator(lambda told: checks.run_checks(told), kept=evaluate.KeptParts(facts=True))
    with simulate_machine("atlas-800t-a2", ()) as machine:
        told = facts.ask_machine(machine)
    return _compare_hosts([bench.judge_answers(name, told, "auto") for name in ("node01", "node02")])


def make_strange_report() -> DoctorReport:
    """Every text that a host, a tool or a file's name may choose is meant to break a report."""
    (machine,) = make_hostile_report().hosts
    host = evaluate.JudgedHost(EVIL, tuple(machine.findings), {"fleet.kernel": {"kernel": EVIL}}, machine.facts)
    plain = evaluate.JudgedHost("node01", (), {"fleet.kernel": {"kernel": "5.10"}})
    odd = Outlier(Finding("fleet.clock", Status.FAIL, EVIL, fix(EVIL, EVIL), (EVIL,)), (EVIL,))
    return _compare_hosts([host, plain], [odd])


@cache
def make_large_report(count: int = 64) -> DoctorReport:
    """As many hosts of 16 devices, each second one with faults; no two hosts' figures and words are the same."""
    faults: Sequence[tuple[str, ...]] = ((), ("hot=101",), (), ("card-lost=3", "shm-small"))
    machines = []
    for wishes in faults:
        with simulate_machine("atlas-200t-a2-box16", wishes) as machine:
            machines.append(facts.gather_facts(machine))
    hosts = [machines[n % len(machines)] for n in range(count)]
    return DoctorReport(
        tuple(_make_numbered_host(f"node{n + 1:02d}", n, known) for n, known in enumerate(hosts)), made=NOW
    )


def _make_numbered_host(name: str, number: int, known: Facts) -> HostReport:
    """A host with its own number in every finding and line of evidence."""
    found = [
        replace(f, seen=f"{f.seen} ({number})", evidence=tuple(f"{line} {number}" for line in f.evidence))
        for f in checks.run_checks(known)
    ]
    return HostReport(found, known, name)
