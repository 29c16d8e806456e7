"""The recipe's job that `plan` is asked about: the one that every other command means by the same words."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UntoldError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.language import say
from envcheck.core.model import Status
from envcheck.job.job import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve, resolve_method
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer
from launch.memory.job import PlannedJob
from launch.planner import fit, recipe_layout
from launch.planner.resolve import Machine

# Options of another layout than a recipe's.
OTHER_LAYOUT = ("tp", "pp", "vpp", "ep", "etp", "cp", "sharding")
OF_RECIPE = ("variant", "node_role")  # options that a recipe alone gives a meaning


def resolve_here(asked: Mapping[str, Any], facts: Facts) -> Job | None:
    """The job for this machine; None where no recipe has one, or several have, or another layout is asked about."""
    if any(asked[name] for name in OTHER_LAYOUT):
        return None
    request = _request(asked, asked["device"])
    recipes = catalogue.load_all(request.recipes)
    with _no_recipe_needed(asked):
        return resolve(request, recipes, facts)
    return None


def find_offer(asked: Mapping[str, Any], device: str) -> Offer | None:
    """The recipe and its job for cards of that vendor, wherever they are; None where there is none, or several."""
    request = _request(asked, device)
    recipes = catalogue.load_all(request.recipes)
    with _no_recipe_needed(asked):
        return resolve_method(request, recipes, Facts())
    return None


def lay_out(job: Job, facts: Facts, asked: Mapping[str, Any]) -> tuple[Machine, PlannedJob] | None:
    """This machine's cards and the job on them, as doctor's job.memory has it, but for the options in `asked`; None
    where the machine has too few, or a framework would refuse it.  UntoldError for a model that no planner knows."""
    vendor = next((v for v in facts.vendors if v.name == job.device), None)
    if vendor is None or len(vendor.devices) < job.method.processes:
        return None
    if not (fit.model_of(job.recipe) and fit.method_of(job.method)):
        words = f"the planner does not know {job.recipe.models[0]}, the model of the recipe {job.recipe.name}"
        raise UntoldError(words, "envcheck plan --list-models names those that it knows")
    given = {name: value for name, value in asked.items() if value is not None}
    with contextlib.suppress(UsageError):
        if made := fit.lay_out(job.recipe, job.method, facts, job.devices or None, given):
            machine, planned = made
            said = f"layout: that of the recipe {recipe_layout.named(job.recipe, job.method)}"
            return machine, replace(planned, assumed=(*planned.assumed, said))
    return None


def name_model(job: Job | None) -> str | None:
    """The planner's name of the job's model; None where it knows none."""
    return fit.model_of(job.recipe) if job else None


def blocked_line(job: Job) -> str:
    """The requirements that this machine does not meet, in one line; "" where there is none."""
    unmet = [f for f in job.findings if f.status is Status.FAIL]
    said = [f"{f.name.partition('.')[2]}{say(' (')}{say(f.seen)}{say(')')}" for f in unmet]
    return f"{say('blocked by')}{say(': ')}{say(', ').join(said)}" if said else ""


def _request(asked: Mapping[str, Any], device: str) -> JobRequest:
    words = {name: asked[name] for name in ("model", "method", "framework", *OF_RECIPE)}
    return JobRequest(device=device, recipes=asked["recipes"], **words)


def _no_recipe_needed(asked: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Where a job of no recipe, or of several, is planned all the same: a variant or a role is one of a recipe."""
    return contextlib.nullcontext() if any(asked[name] for name in OF_RECIPE) else contextlib.suppress(UsageError)
