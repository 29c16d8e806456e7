"""The options that mean the same job again, for commands to paste."""

from __future__ import annotations

import contextlib
import shlex

from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.recipe import Job, Recipe
from launch.job.request import Request

OWN = ("nnodes", "cards", "rank", "master", "host", "data", "steps", "port")  # of train alone, each with a value


def format_job_options(request: Request, recipe: Recipe, job: Job) -> str:
    """The options that mean this recipe and job again, for commands of train to paste."""
    provision = shlex.split(format_provision_options(request, recipe, job))
    return shlex.join([*provision, *list_variant_options(recipe, job)])


def format_provision_options(request: Request, recipe: Recipe, job: Job) -> str:
    """Those of them that provision knows; a job that its recipe does not hold needs what the recipe's others need."""
    said = ["--recipe", recipe.name]
    said += _method_options(recipe, job)[:2] if job.method in {own.method for own in recipe.jobs} else []
    said += ["--device", catalogue.device_of((recipe, job))] if job.role else []
    said += ["--recipes", str(request.recipes)] if request.recipes else []
    said += ["--into", str(request.into)] if request.into else []
    return shlex.join(said)


def format_own_options(request: Request) -> str:
    """The further options of train, which provision does not know."""
    pairs = [(name, getattr(request, name)) for name in OWN if name not in request.found]
    said = [word for name, value in pairs if value is not None for word in (f"--{name}", str(value))]
    several = {"--set": request.settings, "--installed": request.installed}
    said += [word for name, values in several.items() for value in values for word in (name, value)]
    return shlex.join([*said, *(("--", *request.extra) if request.extra else ())])


def format_repeat_options(request: Request) -> str:
    """The options that start it here again as asked for: those of train alone, where it runs, what watches it."""
    said = [] if request.runs == Request.runs else ["--runs", str(request.runs)]
    said += [] if request.deadline_s is None else ["--deadline", f"{request.deadline_s:.0f}"]
    said += [] if request.gather_s == Request.gather_s else ["--gather", f"{request.gather_s:g}"]
    several = {"--waive": request.waive, "--because": request.because}
    several |= {"--no-stop": request.no_stop, "--limit": request.limits}
    said += [word for name, values in several.items() for value in values for word in (name, value)]
    said += [f"--{flag}" for flag in ("detach", "watch") if getattr(request, flag)]
    return f"{shlex.join(said)} {format_own_options(request)}".strip()


def _method_options(recipe: Recipe, job: Job) -> list[str]:
    """By --method alone where that is enough: a variant's name does as well, and provision knows no --variant."""
    device = catalogue.device_of((recipe, job))
    for name in filter(None, (job.variant, job.method)):
        with contextlib.suppress(UsageError):
            found = catalogue.select((recipe,), recipe.name, name, device, None)[1]
            if (found.method, found.variant) == (job.method, job.variant):
                return ["--method", name]
    return ["--method", job.method, *(("--variant", job.variant) if job.variant else ())]


def list_variant_options(recipe: Recipe, job: Job) -> list[str]:
    """--variant, where --method alone would not mean this job."""
    return _method_options(recipe, job)[2:]
