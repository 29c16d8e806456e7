"""Host requirements of a job: processor architecture, memory, /dev/shm and disk space."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, job_check
from envcheck.core.facts import Disk, Facts, SystemFacts
from envcheck.core.findings import (
    GIB,
    fail,
    format_bytes,
    is_in_container,
    ok,
    quote_values,
    skip,
    suppressed_by,
    warn,
)
from envcheck.core.findings import format_question as asked
from envcheck.core.messages import _, join, verbatim
from envcheck.core.model import Finding, diagnose, fix, manual
from envcheck.job.requirements.demand import CPU, RECIPES, get_demand, tell_unanswered
from envcheck.settings.thresholds import minimum_size_share, threshold_value


def check_architecture(facts: Facts) -> Iterator[Finding]:
    """The recipe has an image and wheels for this processor."""
    wanted, here = get_demand(facts), (facts.host or SystemFacts()).architecture
    if not wanted.architectures:
        yield skip(_("the job has no architecture requirement"))
    elif not here:
        yield tell_unanswered(facts, "host", "host")
    elif here in wanted.architectures:
        yield ok(verbatim(here))
    else:
        made_for = join(_(" and "), wanted.architectures)
        seen = _(
            "recipe {recipe} supports {made_for} only; this host is {here}",
            recipe=wanted.recipe,
            made_for=made_for,
            here=here,
        )
        words = _(
            "Use a host with {architectures}, or choose another recipe.",
            architectures=join(_(" or "), wanted.architectures),
        )
        yield fail(seen, diagnose(words, RECIPES), evidence=quote_values("uname", machine=here))


def check_host_memory(facts: Facts) -> Iterator[Finding]:
    """The host has enough free memory for loading and offload."""
    needed, free = get_demand(facts).host_memory_gib, (facts.host or SystemFacts()).memory_available_bytes
    if needed is None:
        yield skip(_("the job has no known requirement of host memory"))
    elif free is None:
        yield tell_unanswered(facts, "host", "host")
    elif free >= needed * GIB * minimum_size_share(facts):
        yield ok(
            _(
                "this job needs {needed} of host memory; {free} free",
                needed=format_bytes(needed * GIB),
                free=format_bytes(free),
            )
        )
    else:
        seen = _(
            "this job needs {needed} of host memory; {free} free",
            needed=format_bytes(needed * GIB),
            free=format_bytes(free),
        )
        words = _(
            "Stop other processes that use the memory, use a node with more memory, or use fewer "
            "processes or less offload."
        )
        yield fail(
            seen, diagnose(words, "free -h"), evidence=quote_values(asked("ask host"), memory_available_bytes=free)
        )


def check_shm(facts: Facts) -> Iterator[Finding]:
    """/dev/shm has the size that the recipe requires and is not filled by files of ended jobs."""
    wanted, known = get_demand(facts), (facts.disks or {}).get("/dev/shm", Disk())
    needed = _need_shm_gib(facts)
    if needed is None:
        yield skip(_("the job has no /dev/shm requirement"))
    elif wanted.image and not is_in_container(facts):
        yield skip(_("the container is started with {needed:g} GiB", needed=needed))
    elif known.total_bytes is None:
        yield tell_unanswered(facts, "disks", "host")
    elif known.total_bytes < needed * GIB * minimum_size_share(facts):
        found = _describe_small_shm(facts, needed, known.total_bytes)
        # Without a figure in the recipe, the job needs what host.shm recommends for machines with cards.
        yield suppressed_by("host.shm", found) if facts.vendors and wanted.shm_gib is None else found
    elif known.free_bytes is not None and known.free_bytes < needed * GIB / 2:
        seen = _(
            "this job needs {needed} of /dev/shm; {free_bytes} of {total_bytes} free",
            needed=format_bytes(needed * GIB),
            free_bytes=format_bytes(known.free_bytes),
            total_bytes=format_bytes(known.total_bytes),
        )
        words = _("Remove files of ended jobs from /dev/shm if no process uses them.")
        yield warn(
            seen,
            diagnose(words, "ls -l /dev/shm"),
            evidence=quote_values(asked("ask disks"), free_bytes=known.free_bytes),
        )
    else:
        yield ok(
            _(
                "this job needs {needed} of /dev/shm; {total_bytes} found",
                needed=format_bytes(needed * GIB),
                total_bytes=format_bytes(known.total_bytes),
            )
        )


def _need_shm_gib(facts: Facts) -> float | None:
    """Return the required size in GiB; collectives between devices need some even if the recipe has no figure."""
    wanted = get_demand(facts)
    if wanted.shm_gib is not None or wanted.device in CPU or wanted.image:
        return wanted.shm_gib
    return threshold_value(facts, "host.shm.fail_gib")


def _describe_small_shm(facts: Facts, needed: float, total: int) -> Finding:
    seen = _(
        "this job needs {needed} of /dev/shm; {total} found",
        needed=format_bytes(needed * GIB),
        total=format_bytes(total),
    )
    shown = quote_values("statvfs /dev/shm", total_bytes=total)
    if is_in_container(facts):
        return fail(
            seen,
            manual(_("Recreate the container with --shm-size={needed:g}g, or with --ipc=host.", needed=needed)),
            evidence=shown,
        )
    return fail(
        seen,
        fix(_("Enlarge /dev/shm."), f"sudo mount -o remount,size={needed:g}G /dev/shm"),
        evidence=shown,
    )


def check_disk(facts: Facts) -> Iterator[Finding]:
    """The working directory has room for weights, logs and checkpoints."""
    wanted, disks = get_demand(facts), facts.disks or {}
    free = (disks.get(".") or disks.get("/") or Disk()).free_bytes
    if wanted.disk_gib is None:
        yield skip(_("the job has no disk space requirement"))
    elif free is None:
        yield tell_unanswered(facts, "disks", "host")
    elif free >= wanted.disk_gib * GIB * minimum_size_share(facts):
        yield ok(
            _(
                "this job needs {disk_gib} of disk space; {free} free",
                disk_gib=format_bytes(wanted.disk_gib * GIB),
                free=format_bytes(free),
            )
        )
    else:
        seen = _(
            "this job needs {disk_gib} of disk space; {free} free",
            disk_gib=format_bytes(wanted.disk_gib * GIB),
            free=format_bytes(free),
        )
        words = _("Free disk space, use another folder (--runs), or keep fewer checkpoints (save_total_limit).")
        reason = (wanted.disk_reason,) if wanted.disk_reason else ()
        yield fail(
            seen, diagnose(words, "df -h"), evidence=(*reason, *quote_values(asked("ask disks"), free_bytes=free))
        )


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.architecture",
        check_architecture,
        reads="architecture",
        rule="FAIL if the recipe is for another processor",
        fix="Choose another host or recipe.",
    ),
    job_check(
        "job.host_memory",
        check_host_memory,
        reads="memory, the memory planner",
        rule="FAIL if less is free than the recipe or the planner requires",
        fix="Stop other programs, or use a node with more memory.",
    ),
    job_check(
        "job.shm",
        check_shm,
        reads="/dev/shm",
        rule="FAIL if smaller than the recipe requires (default host.shm.fail_gib), WARN if less than half is free",
        fix="Remount it, for example with doctor --fix, or set --shm-size.",
    ),
    job_check(
        "job.disk",
        check_disk,
        reads="disks, the memory planner",
        rule="FAIL if less is free than the recipe or the planner requires",
        fix="Free space, or use another disk.",
    ),
)
