"""Select the chat program for given weights: jobs of the recipes, or the framework's own from kits.toml."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.job.local_facts import collect_environments_here, collect_facts_here
from envcheck.job.resolve import resolve_method
from envcheck.job.select import find_local_device
from installers.recipes import catalogue
from installers.recipes.catalogue import TALKS, Offer, job_device
from installers.recipes.recipe import Recipe, RecipeJob
from launch.infer import chat_kits
from launch.targets.train_request import TrainRequest

METHODS = ("chat", "infer")  # selected by default; a server must be requested with --method


def choose_offer(asked: TrainRequest, adapted: bool, what: str) -> Offer:
    """Return the only matching recipe and job; `adapted`: the weights are an adapter, `what` names them in errors."""
    if asked.method is not None and asked.method not in TALKS:
        raise UsageError(
            _("--method {method} is a training method", method=asked.method[:40]),
            _("use `envcheck train`, or choose a chat method: {talks}", talks=join(", ", TALKS)),
        )
    every = _list_offers(asked)
    fitting = [offer for offer in every if adapted == uses_placeholder(offer[1], "adapter")]
    fitting = [offer for offer in fitting if offer[1] not in chat_kits.build_chat_jobs(offer[0])] or fitting
    fitting = [offer for offer in fitting if not offer[1].variant] or fitting
    if len(fitting) == 1:
        return fitting[0]
    raise (
        _ambiguous_error(fitting)
        if fitting
        else _wrong_weights_error(every, what)
        if every
        else _no_chat_error(asked, what)
    )


def _ambiguous_error(fitting: list[Offer]) -> UsageError:
    names = [
        f"--recipe {recipe.name} --method {job.method}{job.variant and f' --variant {job.variant}'}"
        for recipe, job in fitting
    ]
    return UsageError(
        _("{count} chat programs match this request", count=len(fitting)),
        _("choose one: {names}", names="; ".join(names)),
    )


def _wrong_weights_error(every: list[Offer], what: str) -> UsageError:
    """Only programs for the other kind of weights exist (adapter or full model)."""
    if uses_placeholder(every[0][1], "adapter"):
        return UsageError(
            _("chat with {what} requires a trained adapter", what=what[:80]),
            _("specify it with --run ID or --adapter DIR"),
        )
    return UsageError(
        _("{launcher} supports full models only, not adapters", launcher=" ".join(every[0][1].launcher)),
        _("merge the adapter into its model with the framework, then pass --set model_name_or_path=DIR"),
    )


def _no_chat_error(asked: TrainRequest, what: str) -> UsageError:
    return UsageError(
        _("no chat program available for {what}", what=what[:80]), _("available: {names}", names=_list_available(asked))
    )


def _list_offers(asked: TrainRequest) -> list[Offer]:
    """Return all matching chat jobs; if they are for several devices, only those for this machine's device."""
    recipes = catalogue.load_all(asked.recipes)
    found = [
        offer
        for recipe in recipes
        if asked.recipe in (None, recipe.name)
        for offer in _list_recipe_offers(recipe, asked)
    ]
    if len({job_device(offer) for offer in found}) > 1:
        with contextlib.suppress(UsageError):
            here = find_local_device(collect_facts_here(asked))
            return [offer for offer in found if job_device(offer) == here] or found
    return found


def _list_recipe_offers(recipe: Recipe, asked: TrainRequest) -> list[Offer]:
    """Return the recipe's own chat jobs, and for weights that they do not support those of its framework."""
    wanted, known = (asked.method,) if asked.method else METHODS, collect_environments_here(asked)
    found = []
    for job in recipe.jobs:
        if job.method in wanted and asked.variant in (None, job.variant):
            plain = replace(asked, recipe=recipe.name, method=job.method, settings=(), extra=(), data=None)
            with contextlib.suppress(UsageError):
                found.append(resolve_method(replace(plain, variant=job.variant or None), [recipe], known))
    taken = {uses_placeholder(job, "adapter") for _unused, job in found}
    with contextlib.suppress(UsageError):
        catalogue.check_agreement(recipe, asked.model, None, asked.device, asked.framework)
        more = [job for job in chat_kits.build_chat_jobs(recipe) if job.method in wanted and asked.variant is None]
        found += [(recipe, job) for job in more if uses_placeholder(job, "adapter") not in taken]
    return found


def _list_available(asked: TrainRequest) -> str:
    found = catalogue.load_all(asked.recipes)
    return "; ".join(
        f"{r.name} ({j.method} {j.variant}".strip() + ")" for r in found for j in r.jobs if j.method in TALKS
    )


def uses_placeholder(job: RecipeJob, token: str) -> bool:
    """Whether {token} occurs in the job's command, required files or environment."""
    texts = (*job.launcher, *job.arguments, *job.requires, *job.environment.values())
    return any(f"{{{token}}}" in text for text in texts)
