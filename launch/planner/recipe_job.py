"""Check the parallel degrees of a recipe's job, with messages in terms of the training, not of `envcheck plan`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts, JobFit
from envcheck.core.messages import Message, _, join
from envcheck.core.model import diagnose
from installers.recipes.recipe import Recipe, RecipeJob
from launch.catalogue import model_config
from launch.memory.planned_job import PlannedJob
from launch.planner import layout_rules, recipe_fit, recipe_layout, resolve
from launch.rendering.argument_rows import parse_rows
from launch.rendering.job_scaling import format_search_command

# Names in messages, instead of the options of `envcheck plan`.
TRAINING_NAMES: layout_rules.Names = {
    "tp": _("tensor parallel"),
    "pp": _("pipeline parallel"),
    "vpp": _("virtual pipeline"),
    "ep": _("expert parallel"),
    "etp": _("expert tensor parallel"),
    "cp": _("context parallel"),
    "cards": _("device count"),
    "seq_len": _("sequence length"),
    "micro_batch": _("micro batch size"),
    "grad_accum": _("gradient accumulation steps"),
    "memory_gib": _("device memory"),
    "sharding": _("sharding"),
    "offload": _("offload"),
    "lora_rank": _("LoRA rank"),
    "lora_targets": _("LoRA targets"),
    "quant": _("quantisation"),
}


def draft_recipe_job(recipe: Recipe, job: RecipeJob, device: str, facts: Facts) -> PlannedJob | None:
    """Return the planned job, even if a framework would reject it; None for an unknown model, or without training."""
    name, method = recipe_fit.find_catalogue_model(recipe), recipe_fit.find_training_method(job)
    if not (name and method):
        return None
    machine = recipe_fit.select_machine(job, device, facts) or recipe_fit.build_published_machine(recipe, job)
    return resolve.draft_planned_job(machine, name, method, recipe_layout.list_planner_options(recipe, job))


def list_objections(job: PlannedJob) -> tuple[Message, ...]:
    """Return the reasons to reject the layout: degrees that do not divide, with valid ones, and other limits."""
    return tuple(layout_rules.list_refusals(job, TRAINING_NAMES))


def describe_shape(job: PlannedJob) -> Message:
    """Return degrees, sequence length and model dimensions of a valid layout."""
    x, m = job.layout, job.model
    sizes = {"heads": m.heads, "kv_heads": m.kv_heads, "layers": m.layers, "vocab": m.vocab}
    shape = (
        _(
            "{heads} heads, {kv_heads} key/value heads, {layers} layers, vocabulary {vocab}, {experts} experts",
            experts=m.moe.experts,
            **sizes,
        )
        if m.moe
        else _("{heads} heads, {kv_heads} key/value heads, {layers} layers, vocabulary {vocab}", **sizes)
    )
    return _(
        "tensor parallel {tp}, pipeline parallel {pp}, {seq_len} tokens on {name}: {shape}",
        tp=x.tp,
        pp=x.pp,
        seq_len=job.seq_len,
        name=m.name,
        shape=shape,
    )


def judge_degrees(
    recipe: Recipe, job: RecipeJob, facts: Facts, models: Mapping[str, Mapping[str, Any]] | None = None
) -> JobFit | None:
    """Return the result of job.degrees, for the published model or the config.json found in a folder of `models`.

    None as in `draft_recipe_job`.
    """
    try:
        found = draft_recipe_job(recipe, job, job.device or recipe.device, facts)
        found = _use_found_config(found, models or {}) if found else None
    except EnvcheckError as err:
        remedy = diagnose(_("Try other parallel degrees with `envcheck plan`."), "envcheck plan --help")
        return JobFit(None, _("cannot find a layout: {message}", message=err.message), remedy)
    if found is None:
        return None
    wrong = list_objections(found)
    remedy = diagnose(_explain_remedy(job), format_search_command(recipe, job, found.layout.cards))
    return JobFit(not wrong, join("; ", wrong) or describe_shape(found), remedy if wrong else None)


def _use_found_config(job: PlannedJob, models: Mapping[str, Mapping[str, Any]]) -> PlannedJob:
    """Return the job with the model of the first config.json found."""
    for folder, found in models.items():
        if config := found.get("config"):
            return replace(job, model=model_config.parse_model(config, job.model.name, f"{folder}/config.json"))
    return job


def _explain_remedy(job: RecipeJob) -> Message:
    """Return how to set the degrees of this job."""
    names = [name for name in parse_rows(job.arguments) if re.fullmatch(r"(tensor|pipeline)_\w*(degree|size)", name)]
    return (
        _(
            "Choose one of the listed degrees, with `envcheck train --set {names}`.",
            names=" --set ".join(f"{name}=N" for name in names),
        )
        if names
        else _("Choose one of the listed degrees in your own recipe.")
    )
