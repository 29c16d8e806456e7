"""Which findings have a remedy that is safe to apply, and what it is here: a table by the check's name.

Safe is what the next start of the machine undoes, or a line that is kept beside its change.  A process is ended only
when it is the caller's own, nobody waits for it, and a person has said yes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from envcheck.core.facts import Disk, Facts, VendorFacts
from envcheck.core.home_folder import user_home
from envcheck.core.model import Finding, Status
from envcheck.settings.thresholds import limit_bytes
from installers.fixes.deeds import Deed, End, Remount, Sysctl, Unset

SHELLS = ("systemd", "init", "tini", "dumb-init", "docker-init", "containerd-shim")


@dataclass(frozen=True)
class Fix:
    """A deed, and the finding that it answers.  `asks`: a person must say yes to this one by itself."""

    finding: Finding
    deed: Deed
    root: bool = False
    asks: bool = False


@dataclass(frozen=True)
class ByHand:
    """What belongs to a finding and nothing of ours can mend safely."""

    finding: Finding
    seen: str
    command: str


def proposed(findings: list[Finding], facts: Facts) -> list[Fix]:
    """One fix a deed, in the findings' order."""
    found = [one for one in _answers(findings, facts) if isinstance(one, Fix)]
    return list({str(fix.deed): fix for fix in reversed(found)}.values())[::-1]


def by_hand(findings: list[Finding], facts: Facts) -> list[ByHand]:
    """What a person must do besides, in the findings' order."""
    return [one for one in _answers(findings, facts) if isinstance(one, ByHand)]


def _answers(findings: list[Finding], facts: Facts) -> list[Fix | ByHand]:
    wrong = [f for f in findings if f.status in (Status.WARN, Status.FAIL) and not f.waived]
    return [one for finding in wrong for one in FIXES.get(finding.name, _none)(finding, facts)]


def _none(finding: Finding, facts: Facts) -> Iterator[Fix | ByHand]:
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
    from envcheck.core.derived.ports import RESERVING, as_list, kept_back, reserving, used_ports

    before = kept_back(facts)
    if before is None or (facts.host and facts.host.in_container):
        return
    for v in facts.vendors:
        if v.vendor.port_env and used_ports(facts, v):
            yield Fix(finding, Sysctl(RESERVING, reserving(facts, v), as_list(before)), root=True)


def stale(finding: Finding, facts: Facts) -> Iterator[Fix | ByHand]:
    """The lines of the caller's profiles that set them; a variable of this shell alone is the shell's to unset."""
    import shlex

    from envcheck.checks.host.system import STALE
    from installers.fixes import profiles

    named: set[str] = set()
    home = user_home()
    for path in (home / name for name in profiles.NAMES if home):
        lines = profiles.setting(path, lambda name: bool(STALE.match(name)))
        named |= {name for line in lines for name in line.names}
        if safe := [line for line in lines if line.alone]:
            deed = Unset(str(path), tuple(line.text for line in safe), tuple(line.number for line in safe))
            yield Fix(finding, deed)
        for line in (line for line in lines if not line.alone):
            seen = f"line {line.number} of {path} sets {', '.join(line.names)}, and does more or stands in a block"
            yield ByHand(finding, seen, f"${{EDITOR:-vi}} +{line.number} {shlex.quote(str(path))}")
    here = [name for name in facts.environment or () if STALE.match(name) and name not in named]
    if here:
        seen = f"{', '.join(here)}: set in this shell, by no line of your profiles; log in anew, or unset them here"
        yield ByHand(finding, seen, f"unset {' '.join(here)}")


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
    from envcheck.checks.devices import conflicts
    from probes.host import schemas

    me = schemas.caller(facts)
    if me is None or me.host_pids is not False:
        yield from (p.pid for p in v.processes or () if p.pid is not None)
    yield from (h.pid for h in conflicts.holders(facts, v))


FIXES: Mapping[str, Callable[[Finding, Facts], Iterator[Fix | ByHand]]] = {
    "host.shm": shm,
    "job.shm": shm,
    "host.hugepages": hugepages,
    "host.stale_variables": stale,
    "network.port_range": ports,
    "devices.leftovers": left_over,
    "devices.processes": left_over,
    "devices.memory": left_over,
    "job.memory": left_over,
}
