"""A context in which every gate passes, and functions that change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.collect import facts
from envcheck.core.facts import Disk, Facts, MachineRequirements, Network, SystemFacts, VendorFacts
from envcheck.core.model import Device, Document, Finding, Status, Topology, fix
from envcheck.job.command import TrainingCommand, render_command
from envcheck.vendors import VENDORS
from installers.locks.lockfile import SCHEMA, Lock, LockedDriverFile, LockedImage, LockedWheel
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer
from installers.recipes.recipe import Hardware, Recipe, RecipeContainer, RecipeJob, derive_requirements
from launch.gates import job_requirements
from launch.gates.context import GateContext
from launch.run.container_stage import ContainerStage
from launch.run.host_stage import HostStage
from launch.targets.stage import StageFacts
from tests.envcheck.checks.doctor_helpers import simulate_machine

GIB = 1 << 30
JOB = RecipeJob(
    "lora", "a job", ("{python}", "-m", "x"), ("--steps", "50", "--data", "{data}"), processes=2, data=("{data}",)
)
RECIPE = Recipe("r", "", "cpu", "envcheck", ("m",), Hardware("any", host_memory_gib=2, shm_gib=1), (JOB,))
DISKS = {"/dev/shm": Disk(64 * GIB, 64 * GIB)}
HOST = SystemFacts(cpu_count=2, memory_available_bytes=4 * GIB, in_container=False)
FACTS = Facts(device="cpu", host=HOST, network=Network(("10.0.0.7",)), disks=DISKS)
SIGHT = StageFacts(sizes={"d": 1}, free_bytes=9 * GIB)
BOXED = replace(RECIPE, container=RecipeContainer("box"))
BOX = ContainerStage(BOXED)
HIDDEN: dict[str, Any] = {"stage": BOX, "sight": StageFacts(obstacle="no engine answers")}
FAILING = Finding("driver.version", Status.FAIL, "too old", fix("Update it.", "update"))
RECIPES = catalogue.load_all(None)


def make_command(job: RecipeJob = JOB, recipe: Recipe = RECIPE) -> TrainingCommand:
    return render_command(recipe, job, {"python": "py", "data": "d", "output": "o", "log_dir": "l"})


def make_context(**more: Any) -> GateContext:
    usual: dict[str, Any] = {
        "device": "cpu",
        "runs": Path("/runs"),
        "facts": FACTS,
        "stage": HostStage(RECIPE, Path("/v")),
    }
    usual |= {"recipe": RECIPE, "job": JOB, "command": make_command(), "sight": SIGHT}
    script = more.pop("script", None)  # the verdict on that of a user's own job
    made = GateContext(**{**usual, **more})
    wanted = made.facts.wanted or replace(make_demand(made), script=script)
    return replace(made, facts=replace(made.facts, wanted=wanted))


def make_demand(s: GateContext) -> MachineRequirements:
    """Return the requirements of the recipe on cards of the context's vendor."""
    asked = derive_requirements(s.recipe, s.job)
    cards = None if s.device == "cpu" else max(asked.cards or 0, s.job.processes)
    return replace(asked, device=s.device, cards=cards)


def change_place_facts(**more: Any) -> dict[str, StageFacts]:
    return {"sight": replace(SIGHT, **more)}


def change_host(**more: Any) -> dict[str, Facts]:
    return {"facts": replace(FACTS, host=replace(HOST, **more))}


def change_shm(gib: float | None, free: float | None = None) -> dict[str, Facts]:
    size = None if gib is None else int(gib * GIB)
    return {"facts": replace(FACTS, disks={"/dev/shm": Disk(size, size if free is None else int(free * GIB))})}


def make_npu_cards(number: int, **more: Any) -> dict[str, Any]:
    """Return changes for an NPU machine with `number` cards; `more` are fields of VendorFacts."""
    found = tuple(Device(index=n, npu=n, memory_total_mib=65536, memory_used_mib=0) for n in range(number))
    vendor = VendorFacts(VENDORS["npu"], devices=found, document=Document("npu-smi", "info", devices=found))
    return {"device": "npu", "facts": replace(FACTS, vendors=(replace(vendor, **more),))}


def make_matrix(groups: tuple[range, ...]) -> Topology:
    """Return a topology with HCCS within each group of cards and SYS between groups."""
    names = tuple(f"NPU{n}" for group in groups for n in group)
    where = {f"NPU{n}": at for at, group in enumerate(groups) for n in group}
    rows = {a: {b: "X" if a == b else "HCCS" if where[a] == where[b] else "SYS" for b in names} for a in names}
    return Topology(names, (), rows)


BOX16 = make_matrix((range(8), range(8, 16)))


def limit_visible_cards(
    visible: str, processes: int, topology: Topology | None = BOX16, **environment: str
) -> dict[str, Any]:
    """Return changes for an NPU job with this visible-device list on a server with two modules of eight cards."""
    job = replace(JOB, processes=processes, environment={"ASCEND_RT_VISIBLE_DEVICES": visible, **environment})
    return {**make_npu_cards(16, topology=topology), "job": job, "command": make_command(job)}


def make_mig_cards(number: int) -> dict[str, Any]:
    """Return changes for a machine with `number` NVIDIA cards in MIG mode."""
    found = tuple(Device(index=n, mig_mode="Enabled", memory_total_mib=81920) for n in range(number))
    return {"device": "nvidia", "facts": replace(FACTS, vendors=(VendorFacts(VENDORS["nvidia"], devices=found),))}


def hide_cards(visible: str) -> dict[str, Any]:
    """Return changes for a visible-device list that the recipe unsets."""
    name = "ASCEND_RT_VISIBLE_DEVICES"
    made = replace(make_command(), unset=(name,))
    return {**make_npu_cards(4), "command": made, "stale": (name,), **change_place_facts(environment={name: visible})}


def change_job(**more: Any) -> dict[str, Any]:
    changed = replace(JOB, **more)
    return {"job": changed, "command": make_command(changed)}


def change_arguments(*words: str, **more: Any) -> dict[str, Any]:
    return change_job(arguments=words, **more)


LOCK = Lock(
    SCHEMA,
    "1",
    "r",
    "0" * 64,
    "x86_64",
    image=LockedImage("registry/image:1", id="sha256:aa"),
    wheels=(LockedWheel("numpy", "1.26.4", "numpy-1.26.4-cp310-none-any.whl", "0" * 64),),
    driver=LockedDriverFile("driver.run", "0" * 64, version="24.1.rc1"),
)


def change_locked_package(version: str, **more: Any) -> dict[str, Any]:
    return {"lock": LOCK, **change_place_facts(packages={"numpy": version}, **more)}


def find_offer(recipe: str, method: str) -> Offer:
    return next((r, j) for r in RECIPES for j in r.jobs if r.name == recipe and method in (j.method, j.variant))


def make_recipe_context(recipe: str, method: str, machine: str, *faults: str, **changed: Any) -> GateContext:
    """Return the context of a recipe's job on a simulated machine."""
    chosen, its = find_offer(recipe, method)
    its = replace(its, **changed)
    device = its.device or chosen.device
    with simulate_machine(machine, faults) as here:
        known = facts.gather_facts(here, device, derive_requirements(chosen, its))
    made = make_command(its, chosen)
    return job_requirements.add_requirements(
        make_context(recipe=chosen, job=its, device=device, facts=known, command=made, sight=SIGHT)
    )
