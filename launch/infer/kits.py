"""The table of kits.toml: which program of a framework talks with what it trained, where a recipe does not say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from envcheck.core.toml_file import own_record
from installers.recipes.catalogue import TALKS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering import schema, user_options
from launch.rendering.rows import arguments, rows
from launch.targets.request import TrainRequest


@dataclass(frozen=True)
class ChatKit:
    """An entry of kits.toml, whose head explains the fields; the others are a Job's."""

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
def kits() -> tuple[ChatKit, ...]:
    return own_record(_KitsFile, Path(__file__).with_name("kits.toml")).kits


@dataclass(frozen=True)
class _KitsFile:
    kits: tuple[ChatKit, ...]


def jobs(recipe: Recipe) -> tuple[RecipeJob, ...]:
    """Those of the recipe's framework, on its device."""
    trained = next((job for job in recipe.jobs if job.method not in TALKS), None)
    if trained is None:
        return ()
    device = trained.device or recipe.device
    return tuple(
        _job(kit, recipe, trained)
        for kit in kits()
        if kit.framework == recipe.framework and (not kit.devices or device in kit.devices)
    )


def _job(kit: ChatKit, recipe: Recipe, trained: RecipeJob) -> RecipeJob:
    said = rows(trained.arguments)
    kept = arguments({name: said[name] for name in kit.keep if name in said})
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


def asked(request: TrainRequest, recipe: Recipe, job: RecipeJob) -> RecipeJob:
    """The job with the user's own options, judged as those of a recipe's job are."""
    own = user_options.read(request.settings, request.extra)
    if not own:
        return job
    its = schema.of(job.launcher, recipe, {})
    own = user_options.spelled(own, its)
    doubts = user_options.judge(own, its)
    made = user_options.applied(job, own)
    return replace(made, caution=(*made.caution, *doubts))
