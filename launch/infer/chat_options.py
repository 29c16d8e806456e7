"""Resolve the options of `envcheck infer` to a recipe and job.  Records of runs are untrusted input."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.job.local_facts import collect_environments_here
from envcheck.job.resolve import resolve_method
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from launch.infer import chat_kits, chat_offers, run_weights
from launch.rendering import user_options
from launch.runs import request_note, run_index
from launch.runs.run_state import Run
from launch.targets.train_request import TrainRequest

_PATH = re.compile(r"[^\x00-\x1f{}]{1,4096}")


@dataclass(frozen=True)
class ChatOptions:
    """The options of `envcheck infer`: `run` is an id or "latest" (newest with a checkpoint), `checkpoint` a step."""

    request: TrainRequest
    run: str | None = None
    checkpoint: int | None = None
    adapter: str | None = None
    ask: str | None = None
    deadline_s: float = 600.0


@dataclass(frozen=True)
class ChosenChat:
    """The resolved chat.

    `adapter` is the path of the weights, "" for the published model; `run_id` is that of the run that they come from
    and `container` its container ("" for the host), None without a run.
    """

    request: TrainRequest
    recipe: Recipe
    job: RecipeJob
    adapter: str = ""
    run_id: str = ""
    container: str | None = None


def choose_chat(options: ChatOptions) -> ChosenChat:
    """Return the chat selected by the options; UsageError if the weights or a chat program cannot be determined."""
    if options.checkpoint is not None and options.run is None:
        raise UsageError(_("--checkpoint requires --run"), _("specify the run with --run ID or --run latest"))
    if options.run is None:
        return _choose_by_name(options)
    if options.adapter is not None:
        raise UsageError(_("--run and --adapter cannot be combined"), _("use only one of them"))
    return _choose_by_run(options, _find_run(options.run, options.request))


def _find_run(name: str, request: TrainRequest) -> Run:
    """Return the named run; "latest" is the newest run with a checkpoint, which excludes chats."""
    folder = request.runs.expanduser().absolute() if request.runs != TrainRequest().runs else None
    if name == "latest":
        left = [run for run in run_index.list_runs(folder) if run_weights.list_checkpoints(run)]
        if left:
            return left[0]
    return run_index.find_run(name, folder)


def _choose_by_run(options: ChatOptions, run: Run) -> ChosenChat:
    """Default --into and --recipes to those of the run, from envcheck's own note rather than the untrusted record."""
    note, own = request_note.read_note(run.folder), options.request
    own = replace(own, into=own.into or note.into, recipes=own.recipes or note.recipes)
    if isinstance(run.said.get("own"), dict):
        raise UsageError(
            _("run {id} trained a job of your own, which no recipe describes", id=run.id),
            _("chat with its checkpoint in your own program, or write a recipe with `envcheck recipes create`"),
        )
    recipe = catalogue.find_recipe(catalogue.load_all(own.recipes), run_weights.require_text(run, "recipe"))
    path, adapted = run_weights.locate_checkpoint(recipe, options.checkpoint, run), run_weights.has_adapter(run)
    asked = replace(own, recipe=recipe.name, device=run_weights.require_text(run, "device"))
    return _resolve_chat(options, asked, path, adapted, run)


def _choose_by_name(options: ChatOptions) -> ChosenChat:
    if not (options.request.model or options.request.recipe):
        raise UsageError(
            _("no model specified"), _("specify a run with --run latest, or weights with --model NAME --adapter DIR")
        )
    return _resolve_chat(options, options.request, options.adapter or "", bool(options.adapter), None)


def _resolve_chat(options: ChatOptions, asked: TrainRequest, path: str, adapted: bool, run: Run | None) -> ChosenChat:
    if path and not _PATH.fullmatch(path):
        raise UsageError(
            _("unsupported path {path!r}: it contains braces or control characters, or is too long", path=path[:200]),
            _("specify the folder of a checkpoint, such as output/checkpoint-500"),
        )
    what = _("run {id}", id=run.id) if run else f"{asked.model or asked.recipe}"
    recipe, job = chat_offers.choose_offer(asked, adapted, what)
    if path and run is None and (recipe.image is None or asked.into):
        path = str(Path(path).expanduser().absolute())
    narrowed = replace(asked, recipe=recipe.name, method=job.method, variant=job.variant or None)
    if job in chat_kits.build_chat_jobs(recipe):
        job = chat_kits.apply_user_options(narrowed, recipe, job)
    else:
        recipe, job = resolve_method(narrowed, [recipe], collect_environments_here(narrowed))
    if path:
        job = user_options.fill_token(job, "adapter" if adapted else "model_path", path)
    container = None if run is None else run.get_text("container")
    return ChosenChat(narrowed, recipe, job, path, run.id if run else "", container)
