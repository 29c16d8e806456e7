"""Plan a recipe's job on this machine's cards, for doctor's job.memory and train's gate.memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import CardFit, Facts, JobFit
from envcheck.core.messages import Message, _, ngettext
from envcheck.core.model import diagnose
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.catalogue import devices, models
from launch.memory.planned_job import PlannedJob
from launch.planner import LaunchPlan, advice, machines, recipe_layout, resolve, search, verdict
from launch.planner import card_verdicts as planner_cards
from launch.planner.resolve import PlannedMachine

FITS = {verdict.FITS: True, verdict.NOT: False, verdict.UNTOLD: None}
TUNERS = ("--tuner_type", "--finetuning_type", "--train_type")


def describe_fit(recipe: Recipe, job: RecipeJob, plan: LaunchPlan | None) -> JobFit | None:
    """Return the verdict of a plan with its remedy; None without a plan."""
    name, method = find_catalogue_model(recipe), find_training_method(job)
    return judge_plan(plan, name, method) if plan and name and method else None


def build_unplannable_fit(err: EnvcheckError) -> JobFit:
    """Return the unknown verdict for a job that the planner rejects."""
    return JobFit(None, _("the planner cannot find a layout for this job: {message}", message=err.message))


def plan_recipe(
    recipe: Recipe, job: RecipeJob, facts: Facts, places: tuple[int, ...] | None = None
) -> LaunchPlan | None:
    """Return the plan on this machine's cards; None if the model is not in the catalogue, the job does not train, or no
    card reports its memory size.

    `places`: use only these positions in the tool's list.  Raises EnvcheckError if a framework would reject the layout.
    """
    found = lay_out(recipe, job, facts, places)
    return machines.answer_for_machine(found[0], replace(found[1], meter="reserved")) if found else None


def lay_out(
    recipe: Recipe,
    job: RecipeJob,
    facts: Facts,
    places: tuple[int, ...] | None = None,
    asked: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[PlannedMachine, PlannedJob] | None:
    """Return this machine's cards and the job on them, in its own layout changed by the options in `asked`.

    None and errors as in `plan_recipe`.
    """
    machine = select_machine(job, job.device or recipe.device, facts, places)
    return lay_out_on(machine, recipe, job, asked) if machine else None


def lay_out_on(
    machine: PlannedMachine, recipe: Recipe, job: RecipeJob, asked: Mapping[str, Any] = MappingProxyType({})
) -> tuple[PlannedMachine, PlannedJob] | None:
    """Return these cards and the job on them, as `lay_out` does."""
    name, method = find_catalogue_model(recipe), find_training_method(job)
    if not (name and method):
        return None
    return machine, resolve.build_planned_job(
        machine, name, method, {**recipe_layout.list_planner_options(recipe, job), **asked}
    )


def judge_plan(plan: LaunchPlan, name: str, method: str) -> JobFit:
    """Return the verdict of a plan; unless the job fits, with the smallest change and a command for details."""
    fits, vendor = FITS[plan.verdict], VENDORS.get(plan.job.device.vendor)
    if plan.parted:
        words = _(
            "Disable MIG to train on whole cards; use `envcheck plan` with --memory-gib for the size of an instance."
        )
        commands = vendor.commands.get("uuids", ()) if vendor else ()
        return JobFit(None, _("planner: {reason}", reason=plan.reason), diagnose(words, *commands))
    remedy = None if fits else diagnose(describe_smallest_change(plan), format_plan_command(plan, name, method))
    idle_gib = vendor.idle_memory_mib / 1024 if vendor else 0.0
    each = tuple(
        CardFit(card.place, FITS[now], FITS[idle]) for card, now, idle in planner_cards.judge_idle_cards(plan, idle_gib)
    )
    return JobFit(fits, _("planner: {reason}", reason=plan.reason), remedy, round(plan.shown.total), each)


def describe_smallest_change(plan: LaunchPlan) -> Message:
    """Return the smallest change after which the job fits, as a remedy."""
    best = next(iter(advice.find_fitting_changes(plan.job)), None)
    if best is None:
        return _("No small change of the layout fits. Use more cards, or cards with more memory.")
    return _("Smallest change that fits: {what} ({need_gib:.1f} GiB).", what=best.what, need_gib=best.plan.need_gib)


def format_plan_command(plan: LaunchPlan, name: str, method: str) -> str:
    """Return the `envcheck plan` command for the same job on described hardware."""
    job, x = plan.job, plan.job.layout
    where = f"--device {devices.find_option_name(job.device)} --cards {x.cards} --memory-gib {job.memory_gib:g}"
    layout = f"--framework {job.framework.name} {search.format_layout_options(job)}"
    return f"envcheck plan --model {name} --method {method} {where} {layout} --seq-len {job.seq_len}"


def find_catalogue_model(recipe: Recipe) -> str | None:
    """Return the recipe's model as the planner reads it: its dimensions, its exact name in the catalogue without
    publishers' suffixes, or its folder."""
    if recipe.dimensions:
        return recipe.dimensions
    known = next(filter(None, map(models.find_exact_name, recipe.models)), None)
    return known or next((name for name in recipe.models if _is_model_folder(name)), None)


def _is_model_folder(name: str) -> bool:
    """Whether it is the absolute path of a model folder: of a job of the user's own."""
    return name.startswith("/") and Path(name, "config.json").is_file()


def find_training_method(job: RecipeJob) -> str | None:
    """Return the planner's method, from the job's method and the tuner among its arguments (dpo-lora).

    None for chat and inference.
    """
    words = dict(zip(job.arguments, [*job.arguments, ""][1:], strict=True))
    tuner = next((words[key] for key in TUNERS if key in words), "lora" if "--lora" in words else "full")
    if job.method in resolve.METHODS:
        both = f"{job.method}-{tuner}"
        return both if both in resolve.METHODS and tuner != "full" else job.method
    return tuner if tuner in resolve.METHODS and "{output}" in " ".join(job.arguments) else None


def select_machine(
    job: RecipeJob, device: str, facts: Facts, places: tuple[int, ...] | None = None
) -> PlannedMachine | None:
    """Return this machine with the cards that the job uses on each of its nodes, the emptiest ones.

    `places`: use only these positions in the tool's list.  None without cards of the vendor, or without sizes.
    """
    vendor = next((v for v in facts.vendors if v.name == device), None)
    found = machines.build_vendor_machine(vendor, job.processes, places) if vendor else None
    return replace(found, cards=job.nodes * job.processes) if found else None


def build_published_machine(recipe: Recipe, job: RecipeJob) -> PlannedMachine:
    """Return the nodes and cards of the recipe's job, with cards of the vendor's typical size."""
    machine = machines.build_described_machine(job.device or recipe.device, job.nodes * job.processes, None)
    if job.nodes > 1 or job.processes > machine.device.cards_per_node:
        machine = machines.set_cards_per_node(machine, machine.cards, job.processes)
    note = ngettext(
        "machine: {count} node with {cards} x {memory_gib:g} GiB {name}, as in recipe {recipe}",
        "machine: {count} nodes with {cards} x {memory_gib:g} GiB {name} each, as in recipe {recipe}",
        job.nodes,
        cards=job.processes,
        memory_gib=round(machine.memory_gib, 2),
        name=machine.device.name,
        recipe=recipe.name,
    )
    return replace(machine, note=note)


def list_peak_values(fit: JobFit | None) -> dict[str, Any]:
    """Return predicted and measured peak of a card for run.json, from which `plan --calibrate` reads them."""
    return {"predicted_bytes": fit.predicted_bytes if fit else None, "measured_bytes": None}
