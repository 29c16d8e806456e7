"""What a job requires of the host: the processor's architecture, memory, /dev/shm and disk."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_job
from envcheck.core.facts import Disk, Facts, Host
from envcheck.core.findings import (
    GIB,
    fail,
    figures,
    gib,
    in_container,
    ok,
    skip,
    told_by,
    warn,
)
from envcheck.core.findings import command as asked
from envcheck.core.model import Finding
from envcheck.job.requirements.demand import CPU, RECIPES, get_demand, tell_unanswered
from envcheck.settings.thresholds import least_share, limit


def architecture(facts: Facts) -> Iterator[Finding]:
    """The processor is one that the recipe's image and wheels are made for."""
    wanted, here = get_demand(facts), (facts.host or Host()).architecture
    if not wanted.architectures:
        yield skip("the recipe names no architecture")
    elif not here:
        yield tell_unanswered(facts, "host", "host")
    elif here in wanted.architectures:
        yield ok(here)
    else:
        made_for = " and ".join(wanted.architectures)
        seen = f"recipe {wanted.recipe} supports {made_for} only; this host is {here}"
        words = f"Use a host with {' or '.join(wanted.architectures)}, or choose another recipe."
        yield fail(seen, words, RECIPES, evidence=figures("uname", machine=here))


def host_memory(facts: Facts) -> Iterator[Finding]:
    """The host has the memory free that loading and offloading take, by the recipe and by the planner."""
    needed, free = get_demand(facts).host_memory_gib, (facts.host or Host()).memory_available_bytes
    if needed is None:
        yield skip("neither the recipe nor the planner names host memory")
    elif free is None:
        yield tell_unanswered(facts, "host", "host")
    elif free >= needed * GIB * least_share(facts):
        yield ok(f"this job needs {gib(needed * GIB)} of host memory; {gib(free)} free")
    else:
        seen = f"this job needs {gib(needed * GIB)} of host memory; {gib(free)} free"
        words = "Stop what else uses the memory, or use a node with more: fewer processes and less offload need less."
        yield fail(seen, words, "free -h", evidence=figures(asked("ask host"), memory_available_bytes=free))


def shm(facts: Facts) -> Iterator[Finding]:
    """/dev/shm is as large as the recipe names, and not full of what ended jobs left."""
    wanted, known = get_demand(facts), (facts.disks or {}).get("/dev/shm", Disk())
    needed = _need_shm_gib(facts)
    if needed is None:
        yield skip("the recipe names no size of /dev/shm")
    elif wanted.image and not in_container(facts):
        yield skip(f"the container is started with {needed:g} GiB")
    elif known.total_bytes is None:
        yield tell_unanswered(facts, "disks", "host")
    elif known.total_bytes < needed * GIB * least_share(facts):
        found = _small_shm(facts, needed, known.total_bytes)
        # Without a size of its own, the job needs what that check advises where cards are.
        yield told_by("host.shm", found) if facts.vendors and wanted.shm_gib is None else found
    elif known.free_bytes is not None and known.free_bytes < needed * GIB / 2:
        seen = (
            f"this job needs {gib(needed * GIB)} of /dev/shm; {gib(known.free_bytes)} of {gib(known.total_bytes)} free"
        )
        words = "Remove what ended jobs left there, if no process uses it."
        yield warn(seen, words, "ls -l /dev/shm", evidence=figures(asked("ask disks"), free_bytes=known.free_bytes))
    else:
        yield ok(f"this job needs {gib(needed * GIB)} of /dev/shm; {gib(known.total_bytes)} found")


def _need_shm_gib(facts: Facts) -> float | None:
    """Collectives between devices need some, although a recipe does not say how much."""
    wanted = get_demand(facts)
    if wanted.shm_gib is not None or wanted.device in CPU or wanted.image:
        return wanted.shm_gib
    return limit(facts, "host.shm.fail_gib")


def _small_shm(facts: Facts, needed: float, total: int) -> Finding:
    seen = f"this job needs {gib(needed * GIB)} of /dev/shm; {gib(total)} found"
    shown = figures("statvfs /dev/shm", total_bytes=total)
    if in_container(facts):
        return fail(seen, f"Recreate the container with --shm-size={needed:g}g, or with --ipc=host.", evidence=shown)
    return fail(seen, "Enlarge /dev/shm.", f"sudo mount -o remount,size={needed:g}G /dev/shm", evidence=shown)


def disk(facts: Facts) -> Iterator[Finding]:
    """The working folder has the room for weights, logs and checkpoints."""
    wanted, disks = get_demand(facts), facts.disks or {}
    free = (disks.get(".") or disks.get("/") or Disk()).free_bytes
    if wanted.disk_gib is None:
        yield skip("the recipe names no disk space")
    elif free is None:
        yield tell_unanswered(facts, "disks", "host")
    elif free >= wanted.disk_gib * GIB * least_share(facts):
        yield ok(f"this job needs {gib(wanted.disk_gib * GIB)} of disk space; {gib(free)} free")
    else:
        seen = f"this job needs {gib(wanted.disk_gib * GIB)} of disk space; {gib(free)} free"
        words = "Free disk space, use another folder (--runs), or keep fewer checkpoints (save_total_limit)."
        reason = (wanted.disk_reason,) if wanted.disk_reason else ()
        yield fail(seen, words, "df -h", evidence=(*reason, *figures(asked("ask disks"), free_bytes=free)))


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.architecture",
        architecture,
        reads="architecture",
        rule="FAIL when the recipe is for another processor",
        fix="Another host or recipe.",
    ),
    of_job(
        "job.host_memory",
        host_memory,
        reads="memory, the memory planner",
        rule="FAIL when less is free than the recipe or the planner names",
        fix="Stop what uses it, or a node with more.",
    ),
    of_job(
        "job.shm",
        shm,
        reads="/dev/shm",
        rule="FAIL when it is smaller than the recipe names, without a figure than host.shm.fail_gib; WARN when less "
        "than half of that is free",
        fix="Remount it, also by doctor --fix; --shm-size.",
    ),
    of_job(
        "job.disk",
        disk,
        reads="disks, the memory planner",
        rule="FAIL when less is free than the recipe or the planner names",
        fix="Free some, or another disk.",
    ),
)
