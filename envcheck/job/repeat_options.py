"""Options that select the same job again, for commands to paste."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.job.request import JobRequest
from installers.recipes import catalogue
from installers.recipes.own_recipe import find_own_job
from installers.recipes.recipe import Recipe, RecipeJob

OWN = ("nnodes", "cards", "rank", "master", "host", "data", "steps", "port")  # options of train only, each with a value


def format_job_options(request: JobRequest, recipe: Recipe, job: RecipeJob) -> str:
    """Return the options of provision and train that select this recipe and job.

    For a job that is not one of the recipe's, --recipe suffices: it needs what the recipe's other jobs need.
    """
    if (own := find_own_job(recipe)) is not None:
        return shlex.join(own.words)
    words = ["--recipe", recipe.name]
    words += _format_method_options(recipe, job) if job.method in {own.method for own in recipe.jobs} else []
    words += ["--device", catalogue.job_device((recipe, job))] if job.role else []
    words += ["--devices", request.devices] if request.devices else []
    words += ["--recipes", str(request.recipes)] if request.recipes else []
    words += ["--into", str(request.into)] if request.into else []
    return shlex.join(words)


def format_doctor_options(recipe: Recipe, job: RecipeJob, recipes: Path | None) -> str:
    """Return the same for doctor and plan, which select a recipe by --model and need every name of its job."""
    if (own := find_own_job(recipe)) is not None:
        return shlex.join(own.words)
    words = ["--model", recipe.name, "--method", job.method]
    words += ["--variant", job.variant] if job.variant else []
    words += ["--node-role", job.role] if job.role else []
    words += ["--recipes", str(recipes)] if recipes else []
    return shlex.join(words)


def option_word(name: str) -> str:
    """Return the option of train that sets this field of a request."""
    return {"cards": "--cards-per-node", "limits": "--limit"}.get(name, f"--{name.replace('_', '-')}")


def format_own_options(request: JobRequest) -> str:
    """Return the options of train that provision does not have."""
    pairs = [(name, getattr(request, name)) for name in OWN if name not in request.found]
    words = [word for name, value in pairs if value is not None for word in (option_word(name), str(value))]
    several = {"--set": request.settings, "--installed": request.installed}
    words += [word for name, values in several.items() for value in values for word in (name, value)]
    return shlex.join([*words, *(("--", *request.extra) if request.extra else ())])


def _format_method_options(recipe: Recipe, job: RecipeJob) -> list[str]:
    """Return --method NAME alone if that is unambiguous (NAME may be a variant), else with --variant."""
    device = catalogue.job_device((recipe, job))
    for name in filter(None, (job.variant, job.method)):
        with contextlib.suppress(UsageError):
            found = catalogue.select_job((recipe,), recipe.name, name, device, None)[1]
            if (found.method, found.variant) == (job.method, job.variant):
                return ["--method", name]
    return ["--method", job.method, *(("--variant", job.variant) if job.variant else ())]
