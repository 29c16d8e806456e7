"""What `envcheck infer` was asked for, and the recipe's job that it means; a run's record is a stranger's word."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.job.here import collect_environments_here
from envcheck.job.resolve import resolve_method
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from launch.infer import kits, offers, weights
from launch.rendering import user_options
from launch.runs import known, request_note
from launch.runs.run_state import Run
from launch.targets.request import TrainRequest

_PATH = re.compile(r"[^\x00-\x1f{}]{1,4096}")


@dataclass(frozen=True)
class ChatOptions:
    """`run` names a run, "latest" the newest with a checkpoint; `checkpoint` is the number of its step."""

    request: TrainRequest
    run: str | None = None
    checkpoint: int | None = None
    adapter: str | None = None
    ask: str | None = None
    deadline_s: float = 600.0


@dataclass(frozen=True)
class ChosenChat:
    """`adapter` is what it talks with, "" for the model as published; `container` the one of the run, None where it is
    no run that is talked with; `of` is that run's id."""

    request: TrainRequest
    recipe: Recipe
    job: RecipeJob
    adapter: str = ""
    of: str = ""
    container: str | None = None


def choose(wish: ChatOptions) -> ChosenChat:
    """UsageError, with the next step, where there is nothing to talk with or no program to do it."""
    if wish.checkpoint is not None and wish.run is None:
        raise UsageError("--checkpoint counts the steps of a run", "say which one: --run ID, or --run latest")
    if wish.run is None:
        return _by_name(wish)
    if wish.adapter is not None:
        raise UsageError("--run and --adapter both name weights", "leave one of them out")
    return _by_run(wish, _found(wish.run, wish.request))


def _found(name: str, request: TrainRequest) -> Run:
    """ "latest" is the newest run that left something: talks are on record, too."""
    folder = request.runs.expanduser().absolute() if request.runs != TrainRequest().runs else None
    if name == "latest":
        left = [run for run in known.every(folder) if weights.checkpoints(run)]
        if left:
            return left[0]
    return known.find(name, folder)


def _by_run(wish: ChatOptions, run: Run) -> ChosenChat:
    """--into and --recipes as the run had them, unless they are said: by our own note, not by the run's record."""
    note, own = request_note.of(run.folder), wish.request
    own = replace(own, into=own.into or note.into, recipes=own.recipes or note.recipes)
    recipe = catalogue.by_name(catalogue.load_all(own.recipes), weights.text(run, "recipe"))
    path, adapted = weights.place(recipe, wish.checkpoint, run), weights.adapted(run)
    asked = replace(own, recipe=recipe.name, device=weights.text(run, "device"))
    return _chosen(wish, asked, path, adapted, run)


def _by_name(wish: ChatOptions) -> ChosenChat:
    if not (wish.request.model or wish.request.recipe):
        raise UsageError("what to talk with was not said", "envcheck infer --run latest, or --model NAME --adapter DIR")
    return _chosen(wish, wish.request, wish.adapter or "", bool(wish.adapter), None)


def _chosen(wish: ChatOptions, asked: TrainRequest, path: str, adapted: bool, run: Run | None) -> ChosenChat:
    if path and not _PATH.fullmatch(path):
        raise UsageError(
            f"{path[:200]!r} is no path that a command can name", "give the folder of a checkpoint: .../checkpoint-500"
        )
    what = f"the run {run.id}" if run else f"{asked.model or asked.recipe}"
    recipe, job = offers.choose(asked, adapted, what)
    if path and run is None and (recipe.image is None or asked.into):
        path = str(Path(path).expanduser().absolute())
    narrowed = replace(asked, recipe=recipe.name, method=job.method, variant=job.variant or None)
    if job in kits.jobs(recipe):
        job = kits.asked(narrowed, recipe, job)
    else:
        recipe, job = resolve_method(narrowed, [recipe], collect_environments_here(narrowed))
    if path:
        job = user_options.filled(job, "adapter" if adapted else "model_path", path)
    container = None if run is None else run.text("container")
    return ChosenChat(narrowed, recipe, job, path, run.id if run else "", container)
