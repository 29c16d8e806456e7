"""Would a recipe's own job fit the memory of this machine's cards: for doctor's job.memory and train's gate.memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import CardFit, Facts, Fit
from envcheck.core.model import Remedy
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.catalogue import frameworks, models
from launch.memory.job import PlannedJob
from launch.planner import LaunchPlan, advice, machines, recipe_layout, resolve, search, verdict
from launch.planner import cards as planner_cards
from launch.planner.resolve import Machine

FITS = {verdict.FITS: True, verdict.NOT: False, verdict.UNTOLD: None}
TUNERS = ("--tuner_type", "--finetuning_type", "--train_type")


def fit(recipe: Recipe, job: RecipeJob, facts: Facts) -> Fit | None:
    """None where there is nothing to plan: the model is not of the catalogue, the job does not train, or no card says
    how much memory it has."""
    try:
        return told(recipe, job, planned(recipe, job, facts))
    except EnvcheckError as err:
        return refused(err)


def told(recipe: Recipe, job: RecipeJob, plan: LaunchPlan | None) -> Fit | None:
    name, method = model_of(recipe), method_of(job)
    return judged(plan, name, method) if plan and name and method else None


def refused(err: EnvcheckError) -> Fit:
    return Fit(None, f"the planner cannot lay this job out: {err.message}")


def planned(recipe: Recipe, job: RecipeJob, facts: Facts, places: tuple[int, ...] | None = None) -> LaunchPlan | None:
    """The plan on this machine's cards; None as in `fit`.  `places`: of those in the tool's list alone.  Raises
    EnvcheckError where a framework would refuse it."""
    found = lay_out(recipe, job, facts, places)
    return machines.answer(found[0], replace(found[1], meter="reserved")) if found else None


def lay_out(
    recipe: Recipe,
    job: RecipeJob,
    facts: Facts,
    places: tuple[int, ...] | None = None,
    asked: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Machine, PlannedJob] | None:
    """This machine's cards, and the job on them in its own layout but for the planner's options in `asked`; else as
    `planned`."""
    name, method = model_of(recipe), method_of(job)
    machine = machine_of(job, job.device or recipe.device, facts, places)
    if not (name and method and machine):
        return None
    return machine, resolve.build(machine, name, method, {**options(recipe, job), **asked})


def options(recipe: Recipe, job: RecipeJob) -> dict[str, Any]:
    """The job's own layout as the planner's options."""
    known = recipe.framework if frameworks.find(recipe.framework) else None
    return {"framework": known, "sharding": sharding_of(job), **recipe_layout.options(job)}


def judged(plan: LaunchPlan, name: str, method: str) -> Fit:
    """The verdict, and where it is not a plain yes what would fit, with the command that tells more."""
    fits, vendor = FITS[plan.verdict], VENDORS.get(plan.job.device.vendor)
    if plan.parted:
        words = "Turn MIG off to train on whole cards; envcheck plan --memory-gib tells of an instance's size."
        commands = vendor.commands.get("uuids", ()) if vendor else ()
        return Fit(None, f"by the planner {plan.reason}", Remedy(words, commands))
    remedy = None if fits else Remedy(change(plan), (command(plan, name, method),))
    idle_gib = vendor.idle_memory_mib / 1024 if vendor else 0.0
    each = tuple(
        CardFit(card.place, FITS[now], FITS[idle]) for card, now, idle in planner_cards.judge_idle(plan, idle_gib)
    )
    return Fit(fits, f"by the planner {plan.reason}", remedy, round(plan.shown.total), each)


def change(plan: LaunchPlan) -> str:
    best = next(iter(advice.fitting(plan.job)), None)
    if best is None:
        return "No few changes of the layout make it fit: use more or larger cards."
    return f"The smallest change that fits: {best.what} ({best.plan.need_gib:.1f} GiB)."


def command(plan: LaunchPlan, name: str, method: str) -> str:
    job, x = plan.job, plan.job.layout
    where = f"--device {job.device.vendor} --cards {x.cards} --memory-gib {job.memory_gib:g}"
    return f"envcheck plan --model {name} --method {method} {where} {search.words(job)} --seq-len {job.seq_len}"


def model_of(recipe: Recipe) -> str | None:
    """The catalogue's name of the model: the very name, or what publishers append left out; never a part of a name."""
    names = (models.stem(name.lower()) for name in recipe.models)
    return next((name for name in names if name in models.tables()), None)


def method_of(job: RecipeJob) -> str | None:
    """A training method by the job's own name and the tuner that its arguments name (dpo-lora), or by the tuner alone;
    None for chat and inference."""
    words = dict(zip(job.arguments, [*job.arguments, ""][1:], strict=True))
    tuner = next((words[key] for key in TUNERS if key in words), "lora" if "--lora" in words else "full")
    if job.method in resolve.METHODS:
        both = f"{job.method}-{tuner}"
        return both if both in resolve.METHODS and tuner != "full" else job.method
    return tuner if tuner in resolve.METHODS and "{output}" in " ".join(job.arguments) else None


def sharding_of(job: RecipeJob) -> str | None:
    """The ZeRO stage of --deepspeed: its name, or that of the configuration file; Paddle's own stage is in parallel."""
    words = dict(zip(job.arguments, job.arguments[1:], strict=False))
    stage = re.search(r"(?:zero|z)[-_]?([0-3])", words.get("--deepspeed", "").lower())
    if stage:
        return stage[1]
    return "1" if job.parallel.get("sharding", 1) > 1 else None


def machine_of(job: RecipeJob, device: str, facts: Facts, places: tuple[int, ...] | None = None) -> Machine | None:
    """As many of this machine's cards as the job starts processes, the emptiest ones, on each of its nodes; of those
    at these places in the tool's list alone."""
    vendor = next((v for v in facts.vendors if v.name == device), None)
    found = machines.of_vendor(vendor, job.processes, places) if vendor else None
    return replace(found, cards=job.nodes * job.processes) if found else None


def record(found: Fit | None) -> dict[str, Any]:
    """Predicted and measured peak of a card, as run.json has them and `plan --calibrate` reads them."""
    return {"predicted_bytes": found.predicted_bytes if found else None, "measured_bytes": None}
