"""Reports of simulated machines, and of facts that a stranger wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache
from typing import Any

from envcheck import checks
from envcheck.checks.results import merge_parts
from envcheck.collect import facts
from envcheck.core.facts import Facts, Host, VendorFacts
from envcheck.core.model import Device, Finding, Process, Remedy, Status, Topology
from envcheck.report import HostReport, Report, Style, formats
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import simulated

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=timezone.utc)
FAULTY = ("health-alarm=3", "memory-held", "hot=93", "shm-small", "card-lost=5")
_MARKUP = "\"><script>document.title='taken'</script><img src=x onerror=alert(1)>{{7*7}}{% raw %}&amp;"
EVIL = _MARKUP + "'`|\x1b[2J\x00\u202e\x07\n]]>"


def machine_report(findings: Sequence[Finding], facts: Facts, **more: Any) -> Report:
    """Of this machine alone."""
    return Report((HostReport(findings, facts),), **more)


def text_of(findings: Sequence[Finding], facts: Facts, style: Style | None = None) -> str:
    """What a terminal shows."""
    return formats.render("table", machine_report(findings, facts, style=style or Style()))


@cache
def report_of(name: str, wishes: Sequence[str] = ()) -> Report:
    """What doctor says of the simulated machine with these faults."""
    with simulated(name, wishes) as machine:
        found = facts.gather(machine)
    return machine_report(checks.run_all(found), found, made=NOW)


def hostile() -> Report:
    """Every text that a machine, a tool or a site may choose holds markup, control characters, and too much of all."""
    device = Device(index=0, name=EVIL, uuid=EVIL, bus_id=EVIL, health=EVIL, memory_used_mib=10**9, memory_total_mib=1)
    names = (EVIL, *(f"GPU{n}" for n in range(200)))
    topology = Topology(names, (EVIL,), {a: dict.fromkeys(names, EVIL) for a in names[:3]}, {EVIL: EVIL}, {EVIL: EVIL})
    process = Process(device=0, pid=1, name=EVIL, memory_mib=-1)
    vendor = VendorFacts(
        VENDORS["nvidia"], devices=(device,) * 300, processes=(process,) * 50, topology=topology, pci=(EVIL,) * 300
    )
    named = ((f"own.{EVIL}", EVIL, ""), ("devices.ecc", "nvidia", EVIL))
    remedy, evidence = Remedy(EVIL, (EVIL, "x" * 10_000_000)), (EVIL, "y" * 10_000_000, *[EVIL] * 5000)
    found = [
        Finding(name, status, EVIL, remedy, evidence, EVIL, device, EVIL, waived)
        for status in Status
        for name, device, waived in (*named, (f"host.{status.name.lower()}", "", ""))
    ]
    host = Host(hostname=EVIL, os=EVIL, kernel=EVIL, memory_total_bytes=1, memory_available_bytes=-(10**30))
    merged = sorted(merge_parts(found), key=lambda f: f.name.partition(".")[0])
    return machine_report(merged, Facts(vendors=(vendor,), host=host), made=NOW)
