"""Fleets of simulated machines, and one of strangers, for the tests of their reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from envcheck import checks
from envcheck.collect import facts
from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet import evaluate
from envcheck.fleet.outlier import Odd
from envcheck.fleet.output import Said
from envcheck.fleet.report import forms
from envcheck.fleet.report.options import FleetReportOptions
from envcheck.report import Style
from tests.envcheck.checks.doctor_helpers import simulated
from tests.envcheck.report.report_helpers import EVIL, NOW, hostile

FAULTS: tuple[tuple[str, ...], ...] = ((), ("card-lost=3",), ("hot=101",), ("driver-old",), ())
TRIED = (
    Odd(Finding("fleet.clock", Status.FAIL, "clocks: node02 5.0 s ahead of most", Remedy("Look.")), ("node02",)),
    Odd(Finding("fleet.names", Status.OK, "30 names lead where they should")),
)


def silent(name: str) -> Said:
    said = Said(name, status=255)
    said.err_line(f"ssh: connect to host {name} port 22: Connection refused".encode())
    return said


@cache
def faulty(faults: Sequence[tuple[str, ...]] = FAULTS, tried: Sequence[Odd] = TRIED) -> evaluate.Fleet:
    """node01 and so on with these faults, and one more that does not answer."""
    bench = evaluate.Bench(lambda told: checks.run_all(told), keep=True)
    hosts = []
    for number, wishes in enumerate(faults):
        with simulated("atlas-800t-a2", wishes) as machine:
            hosts.append(bench.answers(f"node{number + 1:02d}", facts.ask(machine), "auto"))
    return evaluate.fleet([*hosts, bench.said(silent(f"node{len(faults) + 1:02d}"))], tried)


def well() -> evaluate.Fleet:
    bench = evaluate.Bench(lambda told: checks.run_all(told), keep=True)
    with simulated("atlas-800t-a2", ()) as machine:
        told = facts.ask(machine)
    return evaluate.fleet([bench.answers(name, told, "auto") for name in ("node01", "node02")])


def strange() -> evaluate.Fleet:
    """Every text that a host, a tool or a file's name may choose is meant to break a report."""
    report = hostile()
    host = evaluate.Host(EVIL, tuple(report.findings), {"fleet.kernel": {"kernel": EVIL}}, report.facts)
    plain = evaluate.Host("node01", (), {"fleet.kernel": {"kernel": "5.10"}})
    odd = Odd(Finding("fleet.clock", Status.FAIL, EVIL, Remedy(EVIL, (EVIL,)), (EVIL,)), (EVIL,))
    return evaluate.fleet([host, plain], [odd])


def rendered(name: str, fleet: evaluate.Fleet, strict: bool = False, lang: str = "en") -> str:
    return forms.render(name, fleet, FleetReportOptions(strict, Style(), lang, NOW))
