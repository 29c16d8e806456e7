"""Gates for the place where the job runs: doctor's checks, container, runs folder, command, lock file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core.derived.key_value import driver_version
from envcheck.core.messages import NOTHING, Message, _, join, ngettext
from envcheck.core.model import Finding, Status, diagnose, fix, manual
from installers.locks import enforcement
from installers.locks.lockfile import Lock, LockedImage
from launch.gates.context import GateContext
from launch.gates.results import block_if_unreachable, build_finding, build_not_applicable, find_vendor_facts
from launch.targets.stage import StageFacts

# Checks of doctor that a gate of its own covers, with the facts of the job and its place.
ELSEWHERE = {
    "job.device": "devices",
    "job.cards": "devices",
    "job.memory": "memory",
    "job.degrees": "degrees",
    "job.host_memory": "host",
    "job.shm": "shm",
    "job.disk": "disk",
    "job.packages": "environment",
    "job.script": "lint",
    "job.programs": "command",
    "devices.visible": "visible",
    "network.own_name": "name",
    "host.shm": "shm",
    "host.stale_variables": "variables",
    "network.master": "variables",
    "network.port_base": "ports",
}


# Warnings of doctor that are failures without a container: a container runs as root, the host's programs as this user.
ON_HOST = ("devices.access",)


def adapt_to_job(found: Iterable[Finding], device: str, boxed: bool) -> Iterator[Finding]:
    """Yield doctor's findings, with warnings that prevent this job as failures; `boxed`: it runs in a container."""
    for finding in found:
        mine = finding.name in ON_HOST and finding.device in ("", device)
        if mine and not boxed and finding.status is Status.WARN:
            yield replace(finding, status=Status.FAIL)
        else:
            yield finding


def _describe_failure(f: Finding) -> Message:
    if f.seen.endswith(("?", "!", ".")):  # quoted from a program
        return _("{name}: {seen}", name=f.name, seen=f.seen)
    return _("{name}: {seen}.", name=f.name, seen=f.seen)


# Areas whose warnings are reported at the start: the cards, and without a container the host's toolkit (an image brings
# its own, which provision verified with the job's software).
OF_CARDS = ("driver", "devices", "links")
OF_TOOLKIT = ("toolkit",)
OF_IMAGE = ("job.image_versions",)


def check_doctor(s: GateContext) -> Finding:
    """No check of doctor fails for this job, except those that another gate covers."""
    bad = [f for f in s.doctor if f.status is Status.FAIL and f.name not in ELSEWHERE]
    if not bad:
        return _judge_doubts(s)
    commands = tuple(dict.fromkeys(c for f in bad if f.remedy for c in f.remedy.commands))
    lines = tuple(
        _("{finding} {remedy}", finding=_describe_failure(f), remedy=f.remedy.words)
        if f.remedy
        else _describe_failure(f)
        for f in bad
    )
    seen = _("{count} of {total} checks failed", count=_count_checks(bad), total=_count_checks(s.doctor))
    words = _("Fix the failed checks; `envcheck doctor` shows the details.")
    # The details are the failed checks, in the order of the lines: who acts on a check needs its name, not a sentence.
    return Finding("gate.doctor", Status.FAIL, seen, diagnose(words, *commands), lines, details=tuple(bad))


def _count_checks(found: Iterable[Finding]) -> int:
    """Count each check once per device type."""
    return len({(f.name, f.device) for f in found})


def _judge_doubts(s: GateContext) -> Finding:
    """Report warnings and unknown results for the cards; never fails."""
    open_ = [f for f in s.doctor if f.status in (Status.WARN, Status.UNKNOWN) and f.name not in ELSEWHERE]
    areas = OF_CARDS if s.stage.container or s.recipe.image else (*OF_CARDS, *OF_TOOLKIT)
    doubts = [f for f in open_ if f.name.partition(".")[0] in areas or f.name in OF_IMAGE]
    seen = ngettext("{count} check, no failures", "{count} checks, no failures", _count_checks(s.doctor))
    if not doubts:
        return Finding("gate.doctor", Status.OK, seen)
    names = join(", ", dict.fromkeys(f.name for f in doubts))
    lines = tuple(_("{name}: {seen}", name=f.name, seen=f.seen) for f in doubts)
    words = diagnose(_("Review these checks."), f"envcheck doctor {s.doctor_options}")
    worst = min(f.status for f in doubts)  # WARN only if all are warnings
    return Finding("gate.doctor", worst, _("{seen}; review {names}", seen=seen, names=names), words, lines)


def check_container(s: GateContext) -> Finding:
    """The container of the recipe is available, if the job runs in one."""
    if s.sight.obstacle:
        words = s.sight.next_step or _("Run `envcheck doctor` for details about the container engine.")
        return Finding("gate.container", Status.FAIL, s.sight.obstacle, manual(words))
    return Finding("gate.container", Status.OK, _("the job runs in {title}", title=s.stage.title))


def check_runs_writable(s: GateContext) -> Finding:
    """The runs folder is writable."""
    seen = _("{runs}: {runs_error}", runs=s.runs, runs_error=s.runs_error or _("writable"))
    return build_finding("gate.folder", s.runs_error is None, seen, manual(_("Choose a writable folder with --runs.")))


def check_folder_unused(s: GateContext) -> Finding:
    """No other training is active in the runs folder."""
    if s.orphan:
        orphan = _(
            "run {id} is orphaned: its supervisor was killed, process {pid} still runs", id=s.orphan, pid=s.holder
        )
        stop_or_adopt = fix(
            _("Stop that run, or supervise it again with `envcheck runs adopt {id}`.", id=s.orphan),
            f"envcheck runs stop {s.orphan}",
        )
        return build_finding("gate.alone", False, orphan, stop_or_adopt)
    words = _("Wait for that run, stop it, or choose another folder with --runs.")
    if s.holder_run:
        active = _(
            "run {id} is active in {runs}, supervised by process {pid}", id=s.holder_run, runs=s.runs, pid=s.holder
        )
        return build_finding("gate.alone", False, active, fix(words, f"envcheck runs stop {s.holder_run}"))
    seen = (
        _("{runs} is in use by process {holder}", holder=s.holder, runs=s.runs)
        if s.holder
        else _("no other run is active in {runs}", runs=s.runs)
    )
    pid = (s.holder or "").partition(" ")[0]
    inside = s.stage.container and s.holder == find_container_run(s.sight)
    stop = f"docker exec {s.stage.container} kill {pid}" if inside else f"kill {pid}"
    return build_finding("gate.alone", s.holder is None, seen, fix(words, stop) if pid.isdecimal() else manual(words))


def find_container_run(sight: StageFacts) -> Message | None:
    """Describe the run of envcheck that is active in the container, None without one; its pid is the container's."""
    return next((_("{pid} (in the container; run {run})", pid=pid, run=run) for pid, run in sight.marks.items()), None)


def check_lockfile(s: GateContext) -> Finding:
    """Driver, image and packages match the envcheck.lock written by provision."""
    if s.lock_error:
        words = _("Run `envcheck provision` to write a new lock file.")
        return build_finding("gate.lock", None, s.lock_error, fix(words, f"envcheck provision {s.options}"))
    if s.lock is None:
        return build_not_applicable(
            "gate.lock", _("no envcheck.lock found: envcheck did not provision this environment")
        )
    if hidden := block_if_unreachable("gate.lock", s):
        return hidden
    found = find_vendor_facts(s)
    image = LockedImage(s.lock.image.reference, id=s.sight.image) if s.lock.image and s.sight.image else None
    commits = {folder: commit for folder, commit in s.sight.commits.items() if commit} or None
    differences = [
        *enforcement.find_differences(s.lock, packages=s.sight.packages or None, image=image, commits=commits)
    ]
    differences += filter(None, [enforcement.explain_driver_mismatch(s.lock, driver_version(found) if found else None)])
    seen = (
        ngettext(
            "{count} difference from envcheck.lock: {first}",
            "{count} differences from envcheck.lock: {first}",
            len(differences),
            first=differences[0],
        )
        if differences
        else _describe_locked(s.lock)
    )
    words = _("Restore the locked versions, or provision again to lock the current ones.")
    again = f"envcheck provision {s.options}"
    return build_finding("gate.lock", not differences, seen, fix(words, again), evidence=tuple(differences[1:20]))


def _describe_locked(lock: Lock) -> Message:
    parts = [
        ngettext("{count} package", "{count} packages", len(lock.wheels)),
        _("the image") if lock.image else NOTHING,
        _("the driver") if lock.driver else NOTHING,
    ]
    return _("matches envcheck.lock: {parts}", parts=join(", ", filter(None, parts)))
