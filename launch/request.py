"""What `envcheck train` was asked for, and the recipe, job and command that it means; nothing is run here."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from envcheck import places
from envcheck.errors import UsageError
from installers import catalogue
from installers.catalogue import Offer
from installers.recipe import Job, Recipe
from launch import command

STEP_OPTIONS = ("--steps", "--max_steps")


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line; None is "not said"."""

    model: str | None = None
    method: str | None = None
    device: str = "auto"
    framework: str | None = None
    recipe: str | None = None
    recipes: Path | None = None
    into: Path | None = None
    runs: Path = Path("runs")
    data: Path | None = None
    steps: int | None = None
    port: int | None = None
    deadline_s: float | None = None
    provision: bool = False
    yes: bool = False
    as_json: bool = False


def choose(request: Request) -> Offer:
    """The recipe and job that the request means, with its number of steps."""
    recipes = catalogue.load_all(request.recipes)
    if request.recipe:
        recipes = (catalogue.by_name(recipes, request.recipe),)
    recipe, job = _select(recipes, request)
    return recipe, job if request.steps is None else with_steps(job, request.steps)


def _select(recipes: tuple[Recipe, ...], request: Request) -> Offer:
    """Where several devices fit and none was named, the one in this machine."""
    words = (request.model, request.method, request.device, request.framework)
    try:
        return catalogue.select(recipes, *words)
    except UsageError:
        if request.device != "auto":
            raise
        from envcheck.provisioning import device_here

        with contextlib.suppress(UsageError):
            return catalogue.select(recipes, request.model, request.method, device_here(), request.framework)
        raise


def with_steps(job: Job, steps: int) -> Job:
    """The same job for so many steps."""
    arguments = list(job.arguments)
    for number, option in enumerate(arguments[:-1]):
        if option in STEP_OPTIONS:
            arguments[number + 1] = str(steps)
            return replace(job, arguments=tuple(arguments), steps={**job.steps, "max": steps})
    raise UsageError(f"the job {job.method!r} counts no steps that --steps could change", "leave --steps out")


def interpreter_folder(request: Request, recipe: Recipe) -> Path:
    return (request.into or places.environment_folder(recipe.name)).expanduser().absolute()


def values(request: Request, recipe: Recipe, run: Path | None) -> dict[str, str]:
    """What this machine fills into the command; without a run the script's own variables stay."""
    found = {}
    if recipe.image is None:
        found["python"] = str(interpreter_folder(request, recipe) / "bin" / "python")
    if request.data:
        found["data"] = str(request.data.expanduser().absolute())
    if request.port is not None:
        found["port"] = str(request.port)
    return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}


def preview(request: Request, as_script: bool) -> str:
    """What would run, as text or as a script; nothing is looked at or changed."""
    recipe, job = choose(request)
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{recipe.name}"
    run = None if as_script or recipe.image else request.runs.absolute() / name
    made = command.render(recipe, job, values(request, recipe, run))
    return command.as_script(made) if as_script else command.as_text(made)
