"""Reports of many hosts: simulated machines with faults, and one of strangers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from envcheck import checks
from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet import evaluate
from envcheck.fleet.outlier import Odd
from envcheck.fleet.output import HostOutput
from envcheck.report import HostReport, Report
from tests.envcheck.checks.doctor_helpers import simulated
from tests.envcheck.report.report_helpers import EVIL, NOW, hostile

FAULTS: tuple[tuple[str, ...], ...] = ((), ("card-lost=3",), ("hot=101",), ("driver-old",), ())
TRIED = (
    Odd(Finding("fleet.clock", Status.FAIL, "clocks: node02 5.0 s ahead of most", Remedy("Look.")), ("node02",)),
    Odd(Finding("fleet.names", Status.OK, "30 names lead where they should")),
)


def silent(name: str) -> HostOutput:
    said = HostOutput(name, status=255)
    said.err_line(f"ssh: connect to host {name} port 22: Connection refused".encode())
    return said


def _compared(hosts: Iterable[evaluate.Host], tried: Sequence[Odd] | None = None) -> Report:
    return replace(evaluate.compare_hosts(hosts, tried), made=NOW)


@cache
def faulty(faults: Sequence[tuple[str, ...]] = FAULTS, tried: Sequence[Odd] = TRIED) -> Report:
    """node01 and so on with these faults, and one more that does not answer."""
    bench = evaluate.Bench(lambda told: checks.run_all(told), keep=True)
    hosts = []
    for number, wishes in enumerate(faults):
        with simulated("atlas-800t-a2", wishes) as machine:
            hosts.append(bench.answers(f"node{number + 1:02d}", facts.ask(machine), "auto"))
    return _compared([*hosts, bench.said(silent(f"node{len(faults) + 1:02d}"))], tried)


def well() -> Report:
    bench = evaluate.Bench(lambda told: checks.run_all(told), keep=True)
    with simulated("atlas-800t-a2", ()) as machine:
        told = facts.ask(machine)
    return _compared([bench.answers(name, told, "auto") for name in ("node01", "node02")])


def strange() -> Report:
    """Every text that a host, a tool or a file's name may choose is meant to break a report."""
    (machine,) = hostile().hosts
    host = evaluate.Host(EVIL, tuple(machine.findings), {"fleet.kernel": {"kernel": EVIL}}, machine.facts)
    plain = evaluate.Host("node01", (), {"fleet.kernel": {"kernel": "5.10"}})
    odd = Odd(Finding("fleet.clock", Status.FAIL, EVIL, Remedy(EVIL, (EVIL,)), (EVIL,)), (EVIL,))
    return _compared([host, plain], [odd])


@cache
def many(count: int = 64) -> Report:
    """As many hosts of 16 devices, each second one with faults; no two hosts' figures and words are the same."""
    faults: Sequence[tuple[str, ...]] = ((), ("hot=101",), (), ("card-lost=3", "shm-small"))
    machines = []
    for wishes in faults:
        with simulated("atlas-200t-a2-box16", wishes) as machine:
            machines.append(facts.gather(machine))
    hosts = [machines[n % len(machines)] for n in range(count)]
    return Report(tuple(_numbered(f"node{n + 1:02d}", n, known) for n, known in enumerate(hosts)), made=NOW)


def _numbered(name: str, number: int, known: Facts) -> HostReport:
    """The host with words of its own in every finding and line of evidence."""
    found = [
        replace(f, seen=f"{f.seen} ({number})", evidence=tuple(f"{line} {number}" for line in f.evidence))
        for f in checks.run_all(known)
    ]
    return HostReport(found, known, name)
