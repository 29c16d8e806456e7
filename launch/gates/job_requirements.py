"""The gates that hold what the job requires of the machine: the one judge, on the facts as the place of the run sees
them."""

from __future__ import annotations

from dataclasses import replace

from envcheck.checks import run_all
from envcheck.core.facts import Disk, Facts, Host, Packages, Wanted
from envcheck.core.model import Finding, Status
from envcheck.core.units import gib
from envcheck.job.suitability import AREA, judge_requirements
from installers.recipes.catalogue import TALKS
from launch.gates import place
from launch.gates.answers import answer, blocked, ok, unseen, used, vendor
from launch.gates.context import GateContext
from launch.planner.recipe_demand import build_demand, count_output


def environment(s: GateContext) -> Finding:
    """The recipe's software is installed and was proved."""
    if s.sight.obstacle and not s.sight.missing:
        return blocked("gate.environment", "gate.container", f"{s.stage.title} could not be looked into")
    if not s.sight.missing:
        return ok("gate.environment", f"{s.recipe.name} is installed and proved")
    packages = next(finding for finding in judge_place(s) if finding.name == "job.packages")
    lacks_some = packages.status is Status.FAIL and bool(s.sight.packages)
    seen = packages.seen if lacks_some else "; ".join(s.sight.missing)
    words, commands = "Install what is missing.", [f"envcheck provision {s.options}"]
    if s.job.method not in TALKS:  # infer installs nothing
        words = "Install what is missing, or let train do it with --provision."
        commands += [f"envcheck train {s.options} --provision {s.more}".rstrip()]
    return answer("gate.environment", False, seen, words, *commands, evidence=packages.evidence if lacks_some else ())


def devices(s: GateContext) -> Finding:
    """As many devices, or processors, as the job starts processes, as the vendor's tool lists them; whole ones, which
    MIG does not cut, where there are several."""
    return _judge(s, "devices", "job.cards", "job.device")


def degrees(s: GateContext) -> Finding:
    """Heads, key/value heads, experts, layers, vocabulary and sequence length divide by the degrees; else the legal
    degrees are listed.  A config.json that is there counts, not the published model."""
    return _judge(s, "degrees", "job.degrees")


def memory(s: GateContext) -> Finding:
    """Every card that the job uses has the memory free that the planner, or else the recipe, says."""
    return _judge(s, "memory", "job.memory")


def host_memory(s: GateContext) -> Finding:
    """As much of the host's memory is free, and left to the container, as loading and offload take by our figures."""
    found, left = _judge(s, "host", "job.host_memory"), s.sight.memory_bytes
    limit = f"a limit of {s.stage.title} leaves {gib(left)}" if left is not None else ""
    return replace(found, evidence=(*found.evidence, limit)) if limit and found.evidence else found


def shm(s: GateContext) -> Finding:
    """/dev/shm, as the training sees it, is as large as the recipe says: a full one ends a training by a bus error."""
    return unseen("gate.shm", s) or _judge(s, "shm", "job.shm")


def disk(s: GateContext) -> Finding:
    """There is room for logs, and for as many checkpoints as are kept, by the planner or else as the recipe says."""
    hidden = unseen("gate.disk", s) if s.sight.free_bytes is None else None
    return hidden or _judge(s, "disk", "job.disk")


def require(s: GateContext) -> GateContext:
    """With what the job requires, on the cards that it starts on, and the planner's plan."""
    demand, plan = build_demand(s.recipe, s.job, s.facts, select_places(s), s.sight.models)
    image = s.facts.wanted.image if s.facts.wanted else demand.image
    return replace(s, facts=replace(s.facts, wanted=replace(demand, image=image)), plan=plan)


def judge_machine(s: GateContext) -> GateContext:
    """With doctor's findings of the machine, and those of the job's requirements by what the place of the run has."""
    of_machine = (finding for finding in run_all(s.facts) if not finding.name.startswith(f"{AREA}."))
    found = (*of_machine, *judge_place(s))
    return replace(s, doctor=tuple(place.of_job(found, s.device, bool(s.stage.container))))


def judge_place(s: GateContext) -> tuple[Finding, ...]:
    """All requirements of the job, on what was found at the place of the run."""
    return judge_requirements(see_place(s))


def see_place(s: GateContext) -> Facts:
    """The machine's facts, with what the training would find: the container's memory limit, /dev/shm and packages,
    and the disk of the folder of runs."""
    boxed, known = bool(s.stage.container), s.facts
    inside = boxed or bool(known.host and known.host.in_container)
    shared = Disk(s.sight.shm_bytes, s.sight.shm_free_bytes) if boxed else (known.disks or {}).get("/dev/shm", Disk())
    made = Packages(s.sight.python or None, packages=s.sight.packages)
    return replace(
        known,
        wanted=_narrow(s, inside),
        host=_limit_memory(known.host or Host(), s.sight.memory_bytes, inside),
        disks={**(known.disks or {}), "/dev/shm": shared, ".": Disk(None, s.sight.free_bytes)},
        environments={**known.environments, s.recipe.name: made} if s.sight.packages else known.environments,
    )


def _narrow(s: GateContext, inside: bool) -> Wanted:
    """On the cards that were chosen; of the disk only what a run adds, once everything else is in place.  Outside of
    a container there is no image, nor does the recipe say which toolkit its packages need without it."""
    assert s.facts.wanted is not None, "gates are of a job"
    asked = replace(s.facts.wanted, devices=select_places(s))
    if asked.image and not inside:
        asked = replace(asked, image=None, toolkit_minimum=None)
    if s.sight.missing or s.sight.obstacle:
        return asked
    size_gib, reason = count_output(s.job, s.plan)
    return replace(asked, disk_gib=size_gib, disk_reason=reason)


def select_places(s: GateContext) -> tuple[int, ...] | None:
    """The places in the tool's list of the cards on which the job starts its processes."""
    found = vendor(s)
    mine = {id(device) for device in used(s)}
    return tuple(place for place, device in enumerate(found.devices) if id(device) in mine) if found else None


def _limit_memory(host: Host, left_bytes: int | None, inside: bool) -> Host:
    free = host.memory_available_bytes
    least = free if left_bytes is None or free is None else min(free, left_bytes)
    return replace(host, memory_available_bytes=least, in_container=inside)


def _judge(s: GateContext, gate: str, *names: str) -> Finding:
    """The worst of these requirements, in the gate's name; the first of equals."""
    found = {finding.name: finding for finding in judge_place(s)}
    worst = max((found[name] for name in names), key=lambda finding: finding.status)
    evidence = worst.evidence if worst.status not in (Status.OK, Status.NOT_APPLICABLE) else ()
    return replace(worst, name=f"gate.{gate}", source="", evidence=evidence, details=())
