"""One judge: doctor, provision and the gates of train say the same of a machine, in the same words."""

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
from envcheck.core.simulate.machine import Machine
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_offer
from envcheck.simulate import faults, machine_file
from installers.plan import preconditions
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, device_of
from installers.session import narrow_to_node
from launch import gates
from launch.gates import job_requirements
from launch.gates.context import GateContext
from launch.run import choose
from tests.envcheck.checks.doctor_helpers import simulated
from tests.launch.gates.gate_parts import SIGHT, command, situated

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
QUICK = ("atlas-800t-a2", "bi-v150x8")
JUDGED = (Status.WARN, Status.FAIL)


def cases() -> Iterator[object]:
    """Each machine with each fault that it can have; the jobs are those of all recipes for its cards."""
    for name in machine_file.names():
        described = machine_file.load(name)
        known = {"", *faults.applicable(described)}
        for fault in (wish for wish in FAULTS if wish in known):
            marks = () if name in QUICK else pytest.mark.slow
            yield pytest.param(name, _sized(fault, described), id=f"{name}-{fault}", marks=marks)


def _sized(fault: str, described: Machine) -> str:
    """The fault, where it fills a card with nearly all that the card has."""
    if fault != "memory-held" or described.devices is None:
        return fault
    return f"{fault}={described.devices.memory_mib - described.chips[0].memory_used_mib - 2048}"


def offers(vendor: str) -> list[Offer]:
    return [(recipe, job) for recipe in RECIPES for job in recipe.jobs if device_of((recipe, job)) == vendor]


@cache
def machine(name: str, fault: str) -> Facts:
    with simulated(name, (fault,) if fault else ()) as here:
        return facts.gather(here, machine_file.load(name).vendor)


def in_doctor(known: Facts) -> dict[str, Finding]:
    """What doctor says of the job by itself, where it is not told in the place of another check."""
    found = {finding.name: finding for finding in checks.run_all(known) if finding.name.startswith("job.")}
    return {name: finding for name, finding in found.items() if finding.status in JUDGED}


def in_train(offer: Offer, known: Facts) -> GateContext:
    """The gates' context before anything is provisioned: the place is as the machine is."""
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
    stage = choose.choose(recipe, job, Path("/venv"), False, Facts())
    made = command(job, recipe)
    seen = situated(
        recipe=recipe, job=job, device=device_of(offer), facts=known, stage=stage, command=made, sight=sight
    )
    return job_requirements.judge_machine(job_requirements.require(seen))


@pytest.mark.parametrize(("name", "fault"), tuple(cases()))
def test_train_says_what_doctor_says(name: str, fault: str) -> None:
    """For every job of the machine's cards: the gate of a requirement that doctor fails has its sentence and remedy."""
    for offer in offers(machine_file.load(name).vendor):
        job = resolve_offer(JobRequest(), offer, machine(name, fault), "/work")
        seen = in_train(offer, replace(machine(name, fault), wanted=job.wanted))
        told = {finding.name: finding for finding in job.findings}
        doctor = in_doctor(replace(machine(name, fault), wanted=job.wanted))

        for requirement, finding in doctor.items():
            assert (told[requirement].seen, told[requirement].remedy) == (finding.seen, finding.remedy)
            if requirement in GATES and not (seen.stage.container and requirement == "job.shm"):
                gate = gates.GATES[GATES[requirement]](seen)
                assert (gate.status, gate.seen, gate.remedy) == (finding.status, finding.seen, finding.remedy), offer
            elif requirement in IN_DOCTOR:
                lines = gates.GATES["doctor"](seen).evidence
                assert f"{requirement}: {finding.seen}. {finding.remedy.words if finding.remedy else ''}" in lines


@pytest.mark.parametrize(("name", "fault"), tuple(cases()))
def test_provision_says_what_doctor_says(name: str, fault: str) -> None:
    """For every job of the machine's cards: what is in the way of provisioning it is what doctor fails, and the driver
    that is left to a person is doctor's sentence."""
    for recipe, job in offers(machine_file.load(name).vendor):
        known = machine(name, fault)
        resolved = resolve_offer(JobRequest(), (recipe, job), known, "/work")
        told = {f.seen: f.remedy for f in resolved.findings if f.status is Status.FAIL}
        alone = replace(recipe, jobs=(job,))

        for obstacle in preconditions.obstacles(alone, known, job.role):
            remedy = told[obstacle.why]
            assert remedy and obstacle.remedy.startswith(remedy.words)
        blocking = {f.name for f in resolved.findings if f.status is Status.FAIL} & {"job.cards", "job.architecture"}
        assert bool(blocking) <= bool(list(preconditions.obstacles(alone, known, job.role)))
        driver = next((f for f in resolved.findings if f.name == "job.driver" and f.status is Status.FAIL), None)
        version = known.vendors[0].document.driver_version if known.vendors and known.vendors[0].document else None
        hands = [hand.why for hand in preconditions.driver_by_hand(narrow_to_node(recipe, resolved), version)]
        assert driver is None or hands == [f"{driver.seen}; with the vendor's file:"]
