"""Reports of simulated machines, and of facts that a stranger wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache
from typing import Any

from envcheck import checks
from envcheck.checks.results import merge_parts
from envcheck.collect import facts
from envcheck.core.facts import Facts, SystemFacts, VendorFacts
from envcheck.core.model import Device, Finding, Process, Status, Topology, fix
from envcheck.report import DoctorReport, HostReport, Style, formats
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import simulate_machine

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=timezone.utc)
FAULTY = ("health-alarm=3", "memory-held", "hot=93", "shm-small", "card-lost=5")
_MARKUP = "\"><script>document.title='taken'</script><img src=x onerror=alert(1)>{{7*7}}{% raw %}&amp;"
EVIL = _MARKUP + "'`|\x1b[2J\x00\u202e\x07\n]]>"


def make_machine_report(findings: Sequence[Finding], facts: Facts, **more: Any) -> DoctorReport:
    """Of this machine alone."""
    return DoctorReport((HostReport(findings, facts),), **more)


def render_table(findings: Sequence[Finding], facts: Facts, style: Style | None = None) -> str:
    """What a terminal shows."""
    return formats.render("table", make_machine_report(findings, facts, style=style or Style()))


@cache
def make_doctor_report(name: str, wishes: Sequence[str] = ()) -> DoctorReport:
    """Return doctor's report of the simulated machine with these faults."""
    with simulate_machine(name, wishes) as machine:
        found = facts.gather_facts(machine)
    return make_machine_report(checks.run_checks(found), found, made=NOW)


def make_hostile_report() -> DoctorReport:
    """Every text that a machine, a tool or a site may choose holds markup, control characters, and too much of all."""
    device = Device(index=0, name=EVIL, uuid=EVIL, bus_id=EVIL, health=EVIL, memory_used_mib=10**9, memory_total_mib=1)
    names = (EVIL, *(f"GPU{n}" for n in range(200)))
    topology = Topology(names, (EVIL,), {a: dict.fromkeys(names, EVIL) for a in names[:3]}, {EVIL: EVIL}, {EVIL: EVIL})
    process = Process(device=0, pid=1, name=EVIL, memory_mib=-1)
    vendor = VendorFacts(
        VENDORS["nvidia"], devices=(device,) * 300, processes=(process,) * 50, topology=topology, pci=(EVIL,) * 300
    )
    named = ((f"own.{EVIL}", EVIL, ""), ("devices.ecc", "nvidia", EVIL))
    remedy, evidence = fix(EVIL, EVIL, "x" * 10_000_000), (EVIL, "y" * 10_000_000, *[EVIL] * 5000)
    found = [
        Finding(name, status, EVIL, remedy, evidence, EVIL, device, EVIL, waived)
        for status in Status
        for name, device, waived in (*named, (f"host.{status.name.lower()}", "", ""))
    ]
    host = SystemFacts(hostname=EVIL, os=EVIL, kernel=EVIL, memory_total_bytes=1, memory_available_bytes=-(10**30))
    merged = sorted(merge_parts(found), key=lambda f: f.name.partition(".")[0])
    return make_machine_report(merged, Facts(vendors=(vendor,), host=host), made=NOW)
