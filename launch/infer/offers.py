"""Which program talks with such weights: the recipes' own jobs, and those of their frameworks."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.job.here import collect_environments_here, collect_facts_here
from envcheck.job.resolve import resolve_method
from envcheck.job.select import device_here
from installers.recipes import catalogue
from installers.recipes.catalogue import TALKS, Offer, device_of
from installers.recipes.recipe import Recipe, RecipeJob
from launch.infer import kits
from launch.targets.request import TrainRequest

METHODS = ("chat", "infer")  # those that answer; a server is asked for by its name


def choose(asked: TrainRequest, adapted: bool, what: str) -> Offer:
    """The one job that talks with such weights: an adapter, or a whole model."""
    if asked.method is not None and asked.method not in TALKS:
        raise UsageError(f"--method {asked.method[:40]} trains", f"envcheck train does that; here: {', '.join(TALKS)}")
    every = _offers(asked)
    fitting = [offer for offer in every if adapted == takes(offer[1], "adapter")]
    fitting = [offer for offer in fitting if offer[1] not in kits.jobs(offer[0])] or fitting
    fitting = [offer for offer in fitting if not offer[1].variant] or fitting
    if len(fitting) == 1:
        return fitting[0]
    raise _several(fitting) if fitting else _other(every, what) if every else _none(asked, what)


def _several(fitting: list[Offer]) -> UsageError:
    names = ", ".join(
        f"--recipe {recipe.name} --method {job.method}{job.variant and f' --variant {job.variant}'}"
        for recipe, job in fitting
    )
    return UsageError(f"{len(fitting)} programs fit this request", f"say which one: {names}")


def _other(every: list[Offer], what: str) -> UsageError:
    """There are programs, for the other kind of weights."""
    if takes(every[0][1], "adapter"):
        return UsageError(f"to talk with {what[:80]} wants the weights of a run", "--run ID, or --adapter DIR")
    return UsageError(
        f"{' '.join(every[0][1].launcher)} talks with whole models alone, and an adapter is meant",
        "merge it into its model as the upstream does, then name that: --set model_name_or_path=DIR",
    )


def _none(asked: TrainRequest, what: str) -> UsageError:
    return UsageError(f"no recipe has a chat for {what[:80]}", f"there are: {_there_are(asked)}")


def _offers(asked: TrainRequest) -> list[Offer]:
    """Every job that answers, of the recipes that were asked for; on this machine's device, where several fit."""
    recipes = catalogue.load_all(asked.recipes)
    found = [offer for recipe in recipes if asked.recipe in (None, recipe.name) for offer in _of(recipe, asked)]
    if len({device_of(offer) for offer in found}) > 1:
        with contextlib.suppress(UsageError):
            here = device_here(collect_facts_here(asked))
            return [offer for offer in found if device_of(offer) == here] or found
    return found


def _of(recipe: Recipe, asked: TrainRequest) -> list[Offer]:
    """The recipe's own jobs, and for weights that none of them takes those of its framework."""
    wanted, known = (asked.method,) if asked.method else METHODS, collect_environments_here(asked)
    found = []
    for job in recipe.jobs:
        if job.method in wanted and asked.variant in (None, job.variant):
            plain = replace(asked, recipe=recipe.name, method=job.method, settings=(), extra=(), data=None)
            with contextlib.suppress(UsageError):
                found.append(resolve_method(replace(plain, variant=job.variant or None), [recipe], known))
    taken = {takes(job, "adapter") for _, job in found}
    with contextlib.suppress(UsageError):
        catalogue.agreeing(recipe, asked.model, None, asked.device, asked.framework)
        more = [job for job in kits.jobs(recipe) if job.method in wanted and asked.variant is None]
        found += [(recipe, job) for job in more if takes(job, "adapter") not in taken]
    return found


def _there_are(asked: TrainRequest) -> str:
    found = catalogue.load_all(asked.recipes)
    return "; ".join(
        f"{r.name} ({j.method} {j.variant}".strip() + ")" for r in found for j in r.jobs if j.method in TALKS
    )


def takes(job: RecipeJob, token: str) -> bool:
    texts = (*job.launcher, *job.arguments, *job.requires, *job.environment.values())
    return any(f"{{{token}}}" in text for text in texts)
