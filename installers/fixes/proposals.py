"""Which findings have a safe remedy on this machine: a table by check name.

Safe is what the next reboot undoes, and a line that stays in the file as a comment.  A process is ended only if it is
the user's own, has no parent that waits for it, and the user confirms it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from envcheck.core.facts import Disk, Facts, VendorFacts
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Finding, Status
from envcheck.core.portable.home_folder import find_user_home
from envcheck.settings.thresholds import threshold_bytes
from installers.fixes.actions import CommentOutLines, EndProcess, FixAction, ResizeTmpfs, SetSysctl

SHELLS = ("systemd", "init", "tini", "dumb-init", "docker-init", "containerd-shim")


@dataclass(frozen=True)
class ProposedFix:
    """An action and the finding that it fixes; `asks`: it needs its own confirmation."""

    finding: Finding
    action: FixAction
    root: bool = False
    asks: bool = False


@dataclass(frozen=True)
class ManualFix:
    """A remedy that is not safe to automate."""

    finding: Finding
    seen: Message
    command: str


def propose_fixes(findings: list[Finding], facts: Facts) -> list[ProposedFix]:
    """Return the fixes, each action once, in the order of the findings."""
    found = [one for one in _propose_all(findings, facts) if isinstance(one, ProposedFix)]
    return list({str(fix.action): fix for fix in reversed(found)}.values())[::-1]


def list_manual_fixes(findings: list[Finding], facts: Facts) -> list[ManualFix]:
    """Return the remedies that the user must apply, in the order of the findings."""
    return [one for one in _propose_all(findings, facts) if isinstance(one, ManualFix)]


def _propose_all(findings: list[Finding], facts: Facts) -> list[ProposedFix | ManualFix]:
    wrong = [f for f in findings if f.status in (Status.WARN, Status.FAIL) and not f.waived]
    return [one for finding in wrong for one in FIXES.get(finding.name, _propose_nothing)(finding, facts)]


def _propose_nothing(finding: Finding, facts: Facts) -> Iterator[ProposedFix | ManualFix]:
    yield from ()


def resize_shm(finding: Finding, facts: Facts) -> Iterator[ProposedFix]:
    """Resize to the job's requirement, or the check's threshold; a container's /dev/shm is set by its engine."""
    there = (facts.disks or {}).get("/dev/shm", Disk()).total_bytes
    if there is None or (facts.host and facts.host.in_container):
        return
    wanted = (facts.wanted.shm_gib if facts.wanted else None) or 0
    size = max(int(threshold_bytes(facts, "host.shm.warn_gib")), int(wanted * (1 << 30)))
    yield ProposedFix(finding, ResizeTmpfs("/dev/shm", size, there), root=True)


def release_hugepages(finding: Finding, facts: Facts) -> Iterator[ProposedFix]:
    """Release unused huge pages."""
    host = facts.host
    if host and host.hugepages_total and host.hugepages_free is not None:
        used = host.hugepages_total - host.hugepages_free
        yield ProposedFix(finding, SetSysctl("vm.nr_hugepages", str(used), str(host.hugepages_total)), root=True)


def reserve_ports(finding: Finding, facts: Facts) -> Iterator[ProposedFix]:
    """Reserve the collective communication ports in addition to the reserved ones, if these are known."""
    from envcheck.core.derived.collective_ports import (
        RESERVING,
        extend_reserved_ports,
        format_ports,
        list_used_ports,
        read_reserved_ports,
    )

    before = read_reserved_ports(facts)
    if before is None or (facts.host and facts.host.in_container):
        return
    for v in facts.vendors:
        if v.vendor.port_env and list_used_ports(facts, v):
            yield ProposedFix(
                finding, SetSysctl(RESERVING, extend_reserved_ports(facts, v), format_ports(before)), root=True
            )


def unset_stale_variables(finding: Finding, facts: Facts) -> Iterator[ProposedFix | ManualFix]:
    """Comment out lines of the user's profiles that set them; variables of this shell only are a manual fix."""
    import shlex

    from envcheck.checks.host.system import STALE
    from installers.fixes import profiles

    named: set[str] = set()
    home = find_user_home()
    for path in (home / name for name in profiles.NAMES if home):
        lines = profiles.find_assignments(path, lambda name: bool(STALE.match(name)))
        named |= {name for line in lines for name in line.names}
        if safe := [line for line in lines if line.alone]:
            action = CommentOutLines(str(path), tuple(line.text for line in safe), tuple(line.number for line in safe))
            yield ProposedFix(finding, action)
        for line in (line for line in lines if not line.alone):
            seen = _(
                "line {number} of {path} sets {names} together with other settings, or is part of a block",
                number=line.number,
                path=path,
                names=join(", ", line.names),
            )
            yield ManualFix(finding, seen, f"${{EDITOR:-vi}} +{line.number} {shlex.quote(str(path))}")
    here = [name for name in facts.environment or () if STALE.match(name) and name not in named]
    if here:
        seen = _(
            "{here}: set in this shell, but not in any of your profile files; log in again, or unset them here",
            here=join(", ", here),
        )
        yield ManualFix(finding, seen, f"unset {' '.join(here)}")


def end_leftover_processes(finding: Finding, facts: Facts) -> Iterator[ProposedFix]:
    """End the user's processes on a device that have neither a living parent nor a terminal."""
    import os

    import psutil

    for pid in sorted({pid for v in facts.vendors for pid in _device_pids(facts, v)}):
        try:
            process = psutil.Process(pid)
            own = process.uids().real == os.getuid()
            parent = process.parent()
            orphan = parent is None or parent.pid == 1 or parent.name() in SHELLS
            if own and orphan and process.terminal() is None:
                yield ProposedFix(finding, EndProcess(pid, process.create_time(), process.name()), asks=True)
        except psutil.Error:
            continue


def _device_pids(facts: Facts, v: VendorFacts) -> Iterator[int]:
    """Yield ids in this namespace: of the vendor's tool, if it uses the same ids, and of open device nodes."""
    from envcheck.checks.devices import occupancy_causes
    from probes.host import schemas

    me = schemas.read_caller(facts)
    if me is None or me.host_pids is not False:
        yield from (p.pid for p in v.processes or () if p.pid is not None)
    yield from (h.pid for h in occupancy_causes.find_node_holders(facts, v))


FIXES: Mapping[str, Callable[[Finding, Facts], Iterator[ProposedFix | ManualFix]]] = {
    "host.shm": resize_shm,
    "job.shm": resize_shm,
    "host.hugepages": release_hugepages,
    "host.stale_variables": unset_stale_variables,
    "network.port_range": reserve_ports,
    "devices.leftovers": end_leftover_processes,
    "devices.processes": end_leftover_processes,
    "devices.memory": end_leftover_processes,
    "job.memory": end_leftover_processes,
}
