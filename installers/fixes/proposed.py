"""Which findings have a remedy that is safe to apply, and what it is here: a table by the check's name.

Safe is what the next start of the machine undoes, or a line that is kept beside its change.  A process is ended only
when it is the caller's own, nobody waits for it, and a person has said yes to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.checks.thresholds import limit_bytes
from envcheck.model import Disk, Facts, Finding, Severity, VendorFacts
from envcheck.vendors import VENDORS
from installers.fixes.deeds import Deed, End, Remount, Sysctl, Unset

PROFILES = (".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zprofile")
PROFILE_LIMIT = 1 << 20
SHELLS = ("systemd", "init", "tini", "dumb-init", "docker-init", "containerd-shim")


@dataclass(frozen=True)
class Fix:
    """A deed, and the finding that it answers.  `asks`: a person must say yes to this one by itself."""

    finding: Finding
    deed: Deed
    root: bool = False
    asks: bool = False


def proposed(findings: list[Finding], facts: Facts) -> list[Fix]:
    """One fix a deed, in the findings' order."""
    wrong = [f for f in findings if f.severity in (Severity.WARN, Severity.FAIL) and not f.waived]
    found = [fix for finding in wrong for fix in FIXES.get(finding.name, _none)(finding, facts)]
    return list({str(fix.deed): fix for fix in reversed(found)}.values())[::-1]


def _none(finding: Finding, facts: Facts) -> Iterator[Fix]:
    yield from ()


def shm(finding: Finding, facts: Facts) -> Iterator[Fix]:
    """As large as the job wants it, else as the check is content with; a container's own is its engine's to change."""
    there = (facts.disks or {}).get("/dev/shm", Disk()).total_bytes
    if there is None or (facts.host and facts.host.in_container):
        return
    wanted = (facts.wanted.shm_gib if facts.wanted else None) or 0
    size = max(int(limit_bytes(facts, "host.shm.warn_gib")), int(wanted * (1 << 30)))
    yield Fix(finding, Remount("/dev/shm", size, there), root=True)


def hugepages(finding: Finding, facts: Facts) -> Iterator[Fix]:
    """What nobody uses is given back."""
    host = facts.host
    if host and host.hugepages_total and host.hugepages_free is not None:
        used = host.hugepages_total - host.hugepages_free
        yield Fix(finding, Sysctl("vm.nr_hugepages", str(used), str(host.hugepages_total)), root=True)


def ports(finding: Finding, facts: Facts) -> Iterator[Fix]:
    """The collectives' ports beside those that are reserved already; what that is must have been told."""
    from envcheck.checks.ports import RESERVING, as_list, kept_back, reserving, used_ports

    before = kept_back(facts)
    if before is None or (facts.host and facts.host.in_container):
        return
    for v in facts.vendors:
        if VENDORS[v.name].port_env and used_ports(facts, v):
            yield Fix(finding, Sysctl(RESERVING, reserving(facts, v), as_list(before)), root=True)


def stale(finding: Finding, facts: Facts) -> Iterator[Fix]:
    """The lines of the caller's profiles that set them; a variable of this shell alone is the shell's to unset."""
    from envcheck.checks.host import STALE

    for name in PROFILES:
        path = Path.home() / name
        lines = tuple(line for line in _lines(path) if (set_ := SETS.match(line)) and STALE.match(set_[1]))
        if lines:
            yield Fix(finding, Unset(str(path), lines))


SETS = re.compile(r"\s*(?:export\s+|declare\s+-x\s+)?([A-Za-z_]\w*)=(?:[^;&|]*)$")


def _lines(path: Path) -> list[str]:
    try:
        if not path.is_file() or path.stat().st_size > PROFILE_LIMIT:
            return []
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def left_over(finding: Finding, facts: Facts) -> Iterator[Fix]:
    """The caller's own processes on a card whose parent is gone, and that no terminal belongs to."""
    import os

    import psutil

    for pid in sorted({pid for v in facts.vendors for pid in _on_cards(facts, v)}):
        try:
            process = psutil.Process(pid)
            own = process.uids().real == os.getuid()
            parent = process.parent()
            orphan = parent is None or parent.pid == 1 or parent.name() in SHELLS
            if own and orphan and process.terminal() is None:
                yield Fix(finding, End(pid, process.create_time(), process.name()), asks=True)
        except psutil.Error:
            continue


def _on_cards(facts: Facts, v: VendorFacts) -> Iterator[int]:
    """By the ids of this namespace: what the tool lists, where it counts as we do, and who has a node open."""
    from envcheck import sight
    from envcheck.checks import occupied

    me = sight.caller(facts)
    if me is None or me.host_pids is not False:
        yield from (p.pid for p in v.processes or () if p.pid is not None)
    yield from (h.pid for h in occupied.holders(facts, v))


FIXES: Mapping[str, Callable[[Finding, Facts], Iterator[Fix]]] = {
    "host.shm": shm,
    "job.shm": shm,
    "host.hugepages": hugepages,
    "host.stale_variables": stale,
    "network.port_range": ports,
    "devices.leftovers": left_over,
    "devices.processes": left_over,
    "devices.memory": left_over,
}
