"""doctor, provision and the gates of train report the same problems in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from envcheck import checks
from envcheck.collect import facts
from envcheck.core.facts import Disk, Facts
from envcheck.core.model import Finding, Status
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_offer
from envcheck.simulate import faults, machine_file
from installers.plan import preconditions
from installers.provision_run import narrow_to_node
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, job_device
from launch import gates
from launch.gates import job_requirements
from launch.gates.context import GateContext
from launch.run import stage_choice
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.launch.gates.gate_parts import SIGHT, make_command, make_context

RECIPES = catalogue.load_all(None)
# Requirements, and the gates that hold them; of the others gate.doctor tells.
GATES = {
    "job.device": "devices",
    "job.cards": "devices",
    "job.memory": "memory",
    "job.degrees": "degrees",
    "job.host_memory": "host",
    "job.shm": "shm",
    "job.disk": "disk",
}
IN_DOCTOR = ("job.architecture", "job.driver", "job.firmware")
FAULTS = ("", "card-lost", "memory-held", "shm-small", "driver-old")
# A machine's mark: one of each vendor runs in the gate.
MARKS = {"atlas-800t-a2": (), "bi-v150x8": (), "h200x8": pytest.mark.slow, "p800x8": pytest.mark.slow}
JUDGED = (Status.WARN, Status.FAIL)


def make_cases() -> Iterator[object]:
    """Every machine with every fault, and the jobs of all recipes for its cards."""
    for name in machine_file.list_machines():
        described = machine_file.load_machine(name)
        known = {"", *faults.list_applicable_faults(described)}
        for fault in (wish for wish in FAULTS if wish in known):
            marks = MARKS.get(name, pytest.mark.extended)
            yield pytest.param(name, _add_size(fault, described), id=f"{name}-{fault}", marks=marks)


def _add_size(fault: str, described: SimulatedSystem) -> str:
    """The fault that fills a card almost completely."""
    if fault != "memory-held" or described.devices is None:
        return fault
    return f"{fault}={described.devices.memory_mib - described.chips[0].memory_used_mib - 2048}"


def list_offers(vendor: str) -> list[Offer]:
    return [(recipe, job) for recipe in RECIPES for job in recipe.jobs if job_device((recipe, job)) == vendor]


@cache
def gather_facts(name: str, fault: str) -> Facts:
    with simulate_machine(name, (fault,) if fault else ()) as here:
        return facts.gather_facts(here, machine_file.load_machine(name).vendor)


def run_doctor(known: Facts) -> dict[str, Finding]:
    """Return doctor's findings for the job that are not reported by another check."""
    found = {finding.name: finding for finding in checks.run_checks(known) if finding.name.startswith("job.")}
    return {name: finding for name, finding in found.items() if finding.status in JUDGED}


def make_train_context(offer: Offer, known: Facts) -> GateContext:
    """Return the context of the gates before provisioning."""
    recipe, job = offer
    disks = known.disks or {}
    shared, here = disks.get("/dev/shm", Disk()), disks.get(".") or disks.get("/") or Disk()
    sight = replace(
        SIGHT,
        missing=("not provisioned",),
        free_bytes=here.free_bytes,
        shm_bytes=shared.total_bytes,
        shm_free_bytes=shared.free_bytes,
    )
    stage = stage_choice.choose_stage(recipe, job, Path("/venv"), False, Facts())
    made = make_command(job, recipe)
    seen = make_context(
        recipe=recipe, job=job, device=job_device(offer), facts=known, stage=stage, command=made, sight=sight
    )
    return job_requirements.judge_machine(job_requirements.add_requirements(seen))


@pytest.mark.parametrize(("name", "fault"), tuple(make_cases()))
def test_train_reports_what_doctor_reports(name: str, fault: str) -> None:
    """For every job: the gate of a requirement that doctor fails has the same message and remedy."""
    for offer in list_offers(machine_file.load_machine(name).vendor):
        job = resolve_offer(JobRequest(), offer, gather_facts(name, fault), "/work")
        seen = make_train_context(offer, replace(gather_facts(name, fault), wanted=job.wanted))
        told = {finding.name: finding for finding in job.findings}
        doctor = run_doctor(replace(gather_facts(name, fault), wanted=job.wanted))

        for requirement, finding in doctor.items():
            assert (told[requirement].seen, told[requirement].remedy) == (finding.seen, finding.remedy)
            if requirement in GATES and not (seen.stage.container and requirement == "job.shm"):
                gate = gates.GATES[GATES[requirement]](seen)
                assert (gate.status, gate.seen, gate.remedy) == (finding.status, finding.seen, finding.remedy), offer
            elif requirement in IN_DOCTOR:
                lines = gates.GATES["doctor"](seen).evidence
                assert f"{requirement}: {finding.seen}. {finding.remedy.words if finding.remedy else ''}" in lines


@pytest.mark.parametrize(("name", "fault"), tuple(make_cases()))
def test_provision_reports_what_doctor_reports(name: str, fault: str) -> None:
    """For every job: obstacles of provision are failures of doctor, and the manual driver step has doctor's message."""
    for recipe, job in list_offers(machine_file.load_machine(name).vendor):
        known = gather_facts(name, fault)
        resolved = resolve_offer(JobRequest(), (recipe, job), known, "/work")
        told = {f.seen: f.remedy for f in resolved.findings if f.status is Status.FAIL}
        alone = replace(recipe, jobs=(job,))

        for obstacle in preconditions.find_obstacles(preconditions.judge_jobs(alone, known, job.role)):
            remedy = told[obstacle.why]
            assert remedy and obstacle.remedy.startswith(remedy.words)
        blocking = {f.name for f in resolved.findings if f.status is Status.FAIL} & {"job.cards", "job.architecture"}
        assert bool(blocking) <= bool(
            list(preconditions.find_obstacles(preconditions.judge_jobs(alone, known, job.role)))
        )
        driver = next((f for f in resolved.findings if f.name == "job.driver" and f.status is Status.FAIL), None)
        version = known.vendors[0].document.driver_version if known.vendors and known.vendors[0].document else None
        hands = [hand.why for hand in preconditions.list_manual_driver(narrow_to_node(recipe, resolved), version)]
        assert driver is None or hands == [f"{driver.seen}; install the vendor's file:"]
