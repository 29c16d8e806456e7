"""Gates for the job's requirements, judged as `envcheck doctor` does, on the facts of the place where the job runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.checks import run_checks
from envcheck.core.facts import Disk, Facts, MachineRequirements, Packages, SystemFacts, VendorFacts
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Status, diagnose, fix, manual
from envcheck.core.units import format_gib
from envcheck.job.choose_cards import describe_choice, narrow_to_cards
from envcheck.job.suitability import AREA, judge_requirements
from installers.recipes.catalogue import TALKS
from installers.recipes.own_recipe import uses_own_environment
from launch.gates import run_location
from launch.gates.context import GateContext
from launch.gates.results import (
    block_if_unreachable,
    build_blocked,
    build_finding,
    build_not_applicable,
    build_ok,
    find_vendor_facts,
    select_job_devices,
)
from launch.planner.recipe_demand import build_demand, count_output


def check_environment(s: GateContext) -> Finding:
    """The recipe's software is installed and verified."""
    if uses_own_environment(s.recipe):
        return build_not_applicable("gate.environment", _("the job runs in your own environment"))
    if s.sight.obstacle and not s.sight.missing:
        return build_blocked("gate.environment", "gate.container", _("cannot inspect {title}", title=s.stage.title))
    if not (s.sight.missing or s.sight.is_verified):
        return _judge_unverified_place(s)
    if not s.sight.missing:
        return build_ok("gate.environment", _("{name} is installed and verified", name=s.recipe.name))
    packages = next(finding for finding in judge_requirements_at_place(s) if finding.name == "job.packages")
    lacks_some = packages.status is Status.FAIL and bool(s.sight.packages)
    seen = packages.seen if lacks_some else join("; ", s.sight.missing)
    words, commands = _("Install the missing parts."), [f"envcheck provision {s.options}"]
    if s.job.method not in TALKS:  # `envcheck infer` has no --provision
        words = _("Install the missing parts, or let `envcheck train` install them with --provision.")
        commands += [f"envcheck train {s.options} --provision {s.more}".rstrip()]
    return build_finding(
        "gate.environment", False, seen, fix(words, *commands), evidence=packages.evidence if lacks_some else ()
    )


def _judge_unverified_place(s: GateContext) -> Finding:
    """Judge a place without a record of provision by its Python packages: the rest of the software is not known."""
    packages = next(finding for finding in judge_requirements_at_place(s) if finding.name == "job.packages")
    if packages.status is Status.OK:
        return build_ok("gate.environment", packages.seen)
    seen = _("cannot determine whether {name} is installed in {place}", name=s.recipe.name, place=s.stage.title)
    if packages.status.is_problem:
        seen = _("{seen}: {reason}", seen=seen, reason=packages.seen)
    words = _("Check the software of this place; start the job only where the recipe's software is installed.")
    remedy = diagnose(words, f"envcheck doctor {s.doctor_options}".rstrip())
    return build_finding("gate.environment", None, seen, remedy, evidence=packages.evidence)


def check_devices(s: GateContext) -> Finding:
    """The vendor's tool lists a device (or the host a CPU) per process; several processes need devices without MIG."""
    found = _judge_gate(s, "devices", "job.cards", "job.device")
    if s.choice is None or found.status is not Status.OK:
        return found
    return replace(found, seen=_("{seen}; {choice}", seen=found.seen, choice=describe_choice(s.choice)))


def check_degrees(s: GateContext) -> Finding:
    """The parallel degrees divide heads, experts, layers, vocabulary and sequence length of the model's config.json."""
    return _judge_gate(s, "degrees", "job.degrees")


def check_memory(s: GateContext) -> Finding:
    """Every card of the job has enough free memory, as estimated by the planner, else by the recipe."""
    return _judge_gate(s, "memory", "job.memory")


def check_host_memory(s: GateContext) -> Finding:
    """The host, and the container's limit, leave enough memory for loading and offload."""
    found, left = _judge_gate(s, "host", "job.host_memory"), s.sight.memory_bytes
    limit = (
        _("the memory limit of {place} leaves {size}", place=s.stage.title, size=format_gib(left))
        if left is not None
        else ""
    )
    return replace(found, evidence=(*found.evidence, limit)) if limit and found.evidence else found


def check_shared_memory(s: GateContext) -> Finding:
    """/dev/shm of the training has the size of the recipe; a full one ends a training with SIGBUS."""
    return block_if_unreachable("gate.shm", s) or _judge_gate(s, "shm", "job.shm")


def check_disk(s: GateContext) -> Finding:
    """The disk has space for logs and the kept checkpoints, by the planner, else by the recipe."""
    hidden = block_if_unreachable("gate.disk", s) if s.sight.free_bytes is None else None
    return hidden or _judge_gate(s, "disk", "job.disk")


def check_script(s: GateContext) -> Finding:
    """The linter finds no failure in the file or the command of an own job."""
    return _judge_gate(s, "lint", "job.script")


def check_command_complete(s: GateContext) -> Finding:
    """No value of the command is missing, and PATH has the programs of an own job."""
    programs = _judge_gate(s, "command", "job.programs")
    if programs.status.is_problem:
        return programs
    seen = (
        _("missing values: {names}", names=join(", ", s.command.missing))
        if s.command.missing
        else _("the command is complete")
    )
    words = _(
        "Set the missing values; --dry-run describes each. A job with several nodes needs --master ADDRESS, "
        "identical on every node, and --rank."
    )
    if "interfaces" in s.command.missing:
        words = _(
            "{words} Set --host ADDRESS to an address of this machine; it determines the network interface.",
            words=words,
        )
    return build_finding("gate.command", not s.command.missing, seen, manual(words))


def add_requirements(s: GateContext) -> GateContext:
    """Return the context with the job's requirements on its cards, and the planner's plan."""
    demand, plan = build_demand(s.recipe, s.job, s.facts, select_places(s), s.sight.models)
    known = s.facts.wanted or demand
    demand = replace(demand, image=known.image, script=known.script)
    return replace(s, facts=replace(s.facts, wanted=demand), plan=plan)


def judge_machine(s: GateContext) -> GateContext:
    """Return the context with doctor's findings for the machine and the job's requirements."""
    of_machine = [finding for finding in run_checks(s.facts) if not finding.name.startswith(f"{AREA}.")]
    found = (*_excuse_other_cards(s, of_machine), *judge_requirements_at_place(s))
    return replace(s, doctor=tuple(run_location.adapt_to_job(found, s.device, bool(s.stage.container))))


COUNT = "devices.count"
BY_CARD = ("devices", "network")  # areas whose checks look at each card by itself


def _excuse_other_cards(s: GateContext, found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; a failure of cards that the job does not use is a warning."""
    v, places = find_vendor_facts(s), select_places(s)
    for finding in found:
        excused = (
            v is not None
            and places is not None
            and finding.status is Status.FAIL
            and finding.name.partition(".")[0] in BY_CARD
            and len(places) >= s.job.processes
            and (finding.name == COUNT or _passes_on_cards(s, v, places, finding.name))
        )
        yield replace(finding, status=Status.WARN) if excused else finding


def _passes_on_cards(s: GateContext, v: VendorFacts, places: tuple[int, ...], name: str) -> bool:
    own = narrow_to_cards(replace(s.facts, wanted=None), v, places)
    return all(finding.status is not Status.FAIL for finding in run_checks(own, (name,)) if finding.name == name)


def judge_requirements_at_place(s: GateContext) -> tuple[Finding, ...]:
    """Return the findings for the job's requirements, on the facts of the place where it runs."""
    return judge_requirements(merge_place_facts(s))


def merge_place_facts(s: GateContext) -> Facts:
    """Return the machine's facts with those of the place where the job runs.

    These are the container's memory limit, /dev/shm and packages, and the disk of the runs folder.
    """
    boxed, known = bool(s.stage.container), s.facts
    inside = boxed or bool(known.host and known.host.in_container)
    shared = Disk(s.sight.shm_bytes, s.sight.shm_free_bytes) if boxed else (known.disks or {}).get("/dev/shm", Disk())
    made = Packages(s.sight.python or None, packages=s.sight.packages)
    return replace(
        known,
        wanted=_narrow_requirements(s, inside),
        host=_limit_memory(known.host or SystemFacts(), s.sight.memory_bytes, inside),
        disks={**(known.disks or {}), "/dev/shm": shared, ".": Disk(None, s.sight.free_bytes)},
        environments={**known.environments, s.recipe.name: made} if s.sight.packages else known.environments,
    )


def _narrow_requirements(s: GateContext, inside: bool) -> MachineRequirements:
    """Restrict the requirements to the job's cards and, once the software is installed, to the disk space of a run.

    Outside of a container the image does not apply, nor the toolkit version that it contains.
    """
    assert s.facts.wanted is not None, "gates require a job"
    asked = replace(s.facts.wanted, devices=select_places(s))
    if asked.image and not inside:
        asked = replace(asked, image=None, toolkit_minimum=None)
    if s.sight.missing or s.sight.obstacle:
        return asked
    size_gib, reason = count_output(s.job, s.plan)
    return replace(asked, disk_gib=size_gib, disk_reason=reason)


def select_places(s: GateContext) -> tuple[int, ...] | None:
    """Return the positions of the job's cards in the list of the vendor's tool, None without such a list."""
    found = find_vendor_facts(s)
    mine = {id(device) for device in select_job_devices(s)}
    return tuple(place for place, device in enumerate(found.devices) if id(device) in mine) if found else None


def _limit_memory(host: SystemFacts, left_bytes: int | None, inside: bool) -> SystemFacts:
    free = host.memory_available_bytes
    least = free if left_bytes is None or free is None else min(free, left_bytes)
    return replace(host, memory_available_bytes=least, in_container=inside)


def _judge_gate(s: GateContext, gate: str, *names: str) -> Finding:
    """Return the worst finding of these requirements (the first of equals) under the name of the gate."""
    found = {finding.name: finding for finding in judge_requirements_at_place(s)}
    worst = max((found[name] for name in names), key=lambda finding: finding.status)
    evidence = worst.evidence if worst.status not in (Status.OK, Status.NOT_APPLICABLE) else ()
    return replace(worst, name=f"gate.{gate}", source="", evidence=evidence, details=())
