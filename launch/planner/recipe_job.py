"""A recipe's job as the planner lays it out, and what stands against that, in the words of a training."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts, Fit
from envcheck.core.model import Remedy
from installers.recipes.recipe import Job, Recipe
from launch.memory.job import Job as Planned
from launch.planner import fit, legal, machines, resolve

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


def drafted(recipe: Recipe, job: Job, device: str, facts: Facts) -> Planned | None:
    """Whether or not a framework would take it; None for a model that the planner does not know, or no training."""
    name, method = fit.model_of(recipe), fit.method_of(job)
    if not (name and method):
        return None
    cards = job.nodes * job.processes
    machine = fit.machine_of(job, device, facts) or machines.described(device, cards, None)
    return resolve.draft(replace(machine, cards=cards), name, method, fit.options(recipe, job))


def against(job: Planned) -> tuple[str, ...]:
    """Degrees that do not divide, and whatever else a framework refuses, with what would do."""
    return tuple(_said(line) for line in legal.refusals(job))


def shape(job: Planned) -> str:
    x, m = job.layout, job.model
    heads = f"{m.heads} heads, {m.kv_heads} key/value heads, {m.layers} layers, {m.vocab} words"
    experts = f", {m.moe.experts} experts" if m.moe else ""
    return f"tensor {x.tp}, pipeline {x.pp}, {job.seq_len} tokens on {m.name}: {heads}{experts}"


def judged(recipe: Recipe, job: Job, facts: Facts) -> Fit | None:
    """For doctor's job.degrees, which knows the published model alone; None as in `drafted`."""
    try:
        found = drafted(recipe, job, job.device or recipe.device, facts)
    except EnvcheckError as err:
        return Fit(None, f"could not be laid out: {err.message}")
    if found is None:
        return None
    wrong = against(found)
    search = f"envcheck plan --model {found.model.name} --cards {found.layout.cards} --search"
    remedy = Remedy("Take one of the degrees that are listed, in a recipe of your own or by train's --set.", (search,))
    return Fit(not wrong, "; ".join(wrong) or shape(found), remedy if wrong else None)


def _said(line: str) -> str:
    return re.sub(r"--([a-z-]+)(?= )", lambda found: WORDS.get(found[1], found[1].replace("-", " ")), line)
