"""The table of kits.toml: chat programs of frameworks, for recipes without a chat job of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from envcheck.core.toml_file import load_own_record
from installers.recipes.catalogue import TALKS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering import option_schema, user_options
from launch.rendering.argument_rows import format_arguments, parse_rows
from launch.targets.train_request import TrainRequest


@dataclass(frozen=True)
class ChatKit:
    """An entry of kits.toml, documented at the beginning of that file; the other fields are those of RecipeJob."""

    framework: str
    method: str
    title: str
    launcher: tuple[str, ...]
    arguments: tuple[str, ...]
    source: str
    keep: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    config: str = ""
    caution: tuple[str, ...] = ()
    memory_gib: float | None = None
    host_memory_gib: float | None = None


@cache
def load_kits() -> tuple[ChatKit, ...]:
    """Return all entries of kits.toml."""
    return load_own_record(_KitsFile, Path(__file__).with_name("kits.toml")).kits


@dataclass(frozen=True)
class _KitsFile:
    kits: tuple[ChatKit, ...]


def build_chat_jobs(recipe: Recipe) -> tuple[RecipeJob, ...]:
    """Return the chat jobs of the recipe's framework that support its device."""
    trained = next((job for job in recipe.jobs if job.method not in TALKS), None)
    if trained is None:
        return ()
    device = trained.device or recipe.device
    return tuple(
        _build_job(kit, recipe, trained)
        for kit in load_kits()
        if kit.framework == recipe.framework and (not kit.devices or device in kit.devices)
    )


def _build_job(kit: ChatKit, recipe: Recipe, trained: RecipeJob) -> RecipeJob:
    said = parse_rows(trained.arguments)
    kept = format_arguments({name: said[name] for name in kit.keep if name in said})
    preloaded = recipe.environment.get("LD_PRELOAD")
    return RecipeJob(
        method=kit.method,
        title=kit.title,
        launcher=kit.launcher,
        arguments=(*kit.arguments, *kept),
        device=trained.device,
        cards=1,
        requires=(*kit.requires, *((preloaded,) if preloaded else ())),
        config=kit.config,
        caution=kit.caution,
        memory_gib=kit.memory_gib,
        host_memory_gib=kit.host_memory_gib,
    )


def apply_user_options(request: TrainRequest, recipe: Recipe, job: RecipeJob) -> RecipeJob:
    """Return the job with the user's options, validated as for a job of a recipe."""
    own = user_options.parse_user_options(request.settings, request.extra)
    if not own:
        return job
    its = option_schema.find_schema(job.launcher, recipe, {})
    own = user_options.normalise_names(own, its)
    doubts = user_options.judge_names(own, its)
    made = user_options.apply_options(job, own)
    return replace(made, caution=(*made.caution, *doubts))
