"""A situation in which every gate is open, and what to change in it, for the tests of the gates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.collect import facts
from envcheck.core.facts import Disk, Facts, Host, Network, VendorFacts, Wanted
from envcheck.core.model import Device, Document, Finding, Remedy, Status, Topology
from envcheck.job.command import TrainingCommand, render
from envcheck.vendors import VENDORS
from installers.locks.lockfile import SCHEMA, DriverFile, Image, Lock, Wheel
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer
from installers.recipes.recipe import Container, Hardware, Recipe, RecipeJob, wanted
from launch.gates import job_requirements
from launch.gates.context import GateContext
from launch.run.container import ContainerStage
from launch.run.host import HostStage
from launch.targets.stage import StageFacts
from tests.envcheck.checks.doctor_helpers import simulated

GIB = 1 << 30
JOB = RecipeJob(
    "lora", "a job", ("{python}", "-m", "x"), ("--steps", "50", "--data", "{data}"), processes=2, data=("{data}",)
)
RECIPE = Recipe("r", "", "cpu", "envcheck", ("m",), Hardware("any", host_memory_gib=2, shm_gib=1), (JOB,))
DISKS = {"/dev/shm": Disk(64 * GIB, 64 * GIB)}
HOST = Host(cpu_count=2, memory_available_bytes=4 * GIB, in_container=False)
FACTS = Facts(device="cpu", host=HOST, network=Network(("10.0.0.7",)), disks=DISKS)
SIGHT = StageFacts(sizes={"d": 1}, free_bytes=9 * GIB)
BOXED = replace(RECIPE, container=Container("box"))
BOX = ContainerStage(BOXED)
HIDDEN: dict[str, Any] = {"stage": BOX, "sight": StageFacts(obstacle="no engine answers")}
FAILING = Finding("driver.version", Status.FAIL, "too old", Remedy("Update it.", ("update",)))
RECIPES = catalogue.load_all(None)


def command(job: RecipeJob = JOB, recipe: Recipe = RECIPE) -> TrainingCommand:
    return render(recipe, job, {"python": "py", "data": "d", "output": "o", "log_dir": "l"})


def situated(**more: Any) -> GateContext:
    usual: dict[str, Any] = {
        "device": "cpu",
        "runs": Path("/runs"),
        "facts": FACTS,
        "stage": HostStage(RECIPE, Path("/v")),
    }
    usual |= {"recipe": RECIPE, "job": JOB, "command": command(), "sight": SIGHT}
    made = GateContext(**{**usual, **more})
    return made if made.facts.wanted else replace(made, facts=replace(made.facts, wanted=demand(made)))


def demand(s: GateContext) -> Wanted:
    """What the job requires by its recipe alone, on cards of the situation's vendor."""
    asked = wanted(s.recipe, s.job)
    cards = None if s.device == "cpu" else max(asked.cards or 0, s.job.processes)
    return replace(asked, device=s.device, cards=cards)


def sight(**more: Any) -> dict[str, StageFacts]:
    return {"sight": replace(SIGHT, **more)}


def host(**more: Any) -> dict[str, Facts]:
    return {"facts": replace(FACTS, host=replace(HOST, **more))}


def shm(gib: float | None, free: float | None = None) -> dict[str, Facts]:
    size = None if gib is None else int(gib * GIB)
    return {"facts": replace(FACTS, disks={"/dev/shm": Disk(size, size if free is None else int(free * GIB))})}


def cards(number: int, **more: Any) -> dict[str, Any]:
    """An NPU machine of so many cards; `more` is of its VendorFacts."""
    found = tuple(Device(index=n, npu=n, memory_total_mib=65536, memory_used_mib=0) for n in range(number))
    vendor = VendorFacts(VENDORS["npu"], devices=found, document=Document("npu-smi", "info", devices=found))
    return {"device": "npu", "facts": replace(FACTS, vendors=(replace(vendor, **more),))}


def matrix(groups: tuple[range, ...]) -> Topology:
    """HCCS within each group of cards, SYS between them."""
    names = tuple(f"NPU{n}" for group in groups for n in group)
    where = {f"NPU{n}": at for at, group in enumerate(groups) for n in group}
    rows = {a: {b: "X" if a == b else "HCCS" if where[a] == where[b] else "SYS" for b in names} for a in names}
    return Topology(names, (), rows)


BOX16 = matrix((range(8), range(8, 16)))


def seeing(visible: str, processes: int, topology: Topology | None = BOX16, **environment: str) -> dict[str, Any]:
    """A job on NPUs that sees this list of the sixteen of a box of two modules."""
    job = replace(JOB, processes=processes, environment={"ASCEND_RT_VISIBLE_DEVICES": visible, **environment})
    return {**cards(16, topology=topology), "job": job, "command": command(job)}


def parted(number: int) -> dict[str, Any]:
    """So many NVIDIA cards, cut by MIG."""
    found = tuple(Device(index=n, mig_mode="Enabled", memory_total_mib=81920) for n in range(number))
    return {"device": "nvidia", "facts": replace(FACTS, vendors=(VendorFacts(VENDORS["nvidia"], devices=found),))}


def left_out(visible: str) -> dict[str, Any]:
    """A list of cards in the environment, which the recipe takes away."""
    name = "ASCEND_RT_VISIBLE_DEVICES"
    made = replace(command(), unset=(name,))
    return {**cards(4), "command": made, "stale": (name,), **sight(environment={name: visible})}


def job(**more: Any) -> dict[str, Any]:
    changed = replace(JOB, **more)
    return {"job": changed, "command": command(changed)}


def arguments(*words: str, **more: Any) -> dict[str, Any]:
    return job(arguments=words, **more)


LOCK = Lock(
    SCHEMA,
    "1",
    "r",
    "0" * 64,
    "x86_64",
    image=Image("registry/image:1", id="sha256:aa"),
    wheels=(Wheel("numpy", "1.26.4", "numpy-1.26.4-cp310-none-any.whl", "0" * 64),),
    driver=DriverFile("driver.run", "0" * 64, version="24.1.rc1"),
)


def locked(version: str, **more: Any) -> dict[str, Any]:
    return {"lock": LOCK, **sight(packages={"numpy": version}, **more)}


def offer(recipe: str, method: str) -> Offer:
    return next((r, j) for r in RECIPES for j in r.jobs if r.name == recipe and method in (j.method, j.variant))


def of_recipe(recipe: str, method: str, machine: str, *faults: str, **changed: Any) -> GateContext:
    """The recipe's own job on a simulated machine, as far as the machine's tools tell."""
    chosen, its = offer(recipe, method)
    its = replace(its, **changed)
    device = its.device or chosen.device
    with simulated(machine, faults) as here:
        known = facts.gather(here, device, wanted(chosen, its))
    made = command(its, chosen)
    return job_requirements.require(
        situated(recipe=chosen, job=its, device=device, facts=known, command=made, sight=SIGHT)
    )
