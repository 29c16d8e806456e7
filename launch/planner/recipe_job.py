"""A recipe's job as the planner lays it out, and what stands against that, in the words of a training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts, Fit
from envcheck.core.model import Remedy
from installers.recipes.recipe import Recipe, RecipeJob
from launch.catalogue import configs
from launch.memory.job import PlannedJob
from launch.planner import fit, legal, machines, resolve
from launch.rendering.rows import rows

# The planner's options in the words of a training.
WORDS = {
    "tp": "tensor parallel",
    "pp": "pipeline parallel",
    "vpp": "virtual pipeline",
    "ep": "expert parallel",
    "etp": "expert tensor parallel",
    "cp": "context parallel",
    "seq-len": "a sequence of",
    "micro-batch": "a micro batch of",
    "grad-accum": "gradient accumulation",
    "cards": "cards:",
}


def drafted(recipe: Recipe, job: RecipeJob, device: str, facts: Facts) -> PlannedJob | None:
    """Whether or not a framework would take it; None for a model that the planner does not know, or no training."""
    name, method = fit.model_of(recipe), fit.method_of(job)
    if not (name and method):
        return None
    cards = job.nodes * job.processes
    machine = fit.machine_of(job, device, facts) or machines.described(device, cards, None)
    return resolve.draft(replace(machine, cards=cards), name, method, fit.options(recipe, job))


def against(job: PlannedJob) -> tuple[str, ...]:
    """Degrees that do not divide, and whatever else a framework refuses, with what would do."""
    return tuple(_said(line) for line in legal.refusals(job))


def shape(job: PlannedJob) -> str:
    x, m = job.layout, job.model
    heads = f"{m.heads} heads, {m.kv_heads} key/value heads, {m.layers} layers, {m.vocab} words"
    experts = f", {m.moe.experts} experts" if m.moe else ""
    return f"tensor {x.tp}, pipeline {x.pp}, {job.seq_len} tokens on {m.name}: {heads}{experts}"


def judged(
    recipe: Recipe, job: RecipeJob, facts: Facts, models: Mapping[str, Mapping[str, Any]] | None = None
) -> Fit | None:
    """For job.degrees: of the published model, or of the config.json that was found in a folder of `models`; None as
    in `drafted`."""
    try:
        found = drafted(recipe, job, job.device or recipe.device, facts)
        found = _with_config(found, models or {}) if found else None
    except EnvcheckError as err:
        remedy = Remedy("See what the planner says with other degrees.", ("envcheck plan --help",))
        return Fit(None, f"could not be laid out: {err.message}", remedy)
    if found is None:
        return None
    wrong = against(found)
    search = f"envcheck plan --model {found.model.name} --cards {found.layout.cards} --search"
    remedy = Remedy(f"Choose one of the listed degrees, {_say_options(job)}.", (search,))
    return Fit(not wrong, "; ".join(wrong) or shape(found), remedy if wrong else None)


def _with_config(job: PlannedJob, models: Mapping[str, Mapping[str, Any]]) -> PlannedJob:
    """The job on the model whose config.json is there."""
    for folder, said in models.items():
        if said.get("config"):
            return replace(job, model=configs.parse(said["config"], job.model.name, f"{folder}/config.json"))
    return job


def _say_options(job: RecipeJob) -> str:
    """How the degrees of this job are set."""
    names = [name for name in rows(job.arguments) if re.fullmatch(r"(tensor|pipeline)_\w*(degree|size)", name)]
    return f"with train's --set {' --set '.join(f'{name}=N' for name in names)}" if names else "in a recipe of your own"


def _said(line: str) -> str:
    return re.sub(r"--([a-z-]+)(?= )", lambda found: WORDS.get(found[1], found[1].replace("-", " ")), line)
