"""The options that mean the same job again, for commands to paste."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.job.request import JobRequest
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob

OWN = ("nnodes", "cards", "rank", "master", "host", "data", "steps", "port")  # of train alone, each with a value


def format_job_options(request: JobRequest, recipe: Recipe, job: RecipeJob) -> str:
    """The options that mean this recipe and job again, for commands of provision and train to paste; a job that its
    recipe does not hold needs what the recipe's others need."""
    said = ["--recipe", recipe.name]
    said += _method_options(recipe, job) if job.method in {own.method for own in recipe.jobs} else []
    said += ["--device", catalogue.device_of((recipe, job))] if job.role else []
    said += ["--recipes", str(request.recipes)] if request.recipes else []
    said += ["--into", str(request.into)] if request.into else []
    return shlex.join(said)


def format_doctor_options(recipe: Recipe, job: RecipeJob, recipes: Path | None) -> str:
    """The same for doctor and plan, which know a recipe by --model and have an option for each name of its job."""
    said = ["--model", recipe.name, "--method", job.method]
    said += ["--variant", job.variant] if job.variant else []
    said += ["--node-role", job.role] if job.role else []
    said += ["--recipes", str(recipes)] if recipes else []
    return shlex.join(said)


def format_own_options(request: JobRequest) -> str:
    """The further options of train, which provision does not know."""
    pairs = [(name, getattr(request, name)) for name in OWN if name not in request.found]
    said = [word for name, value in pairs if value is not None for word in (f"--{name}", str(value))]
    several = {"--set": request.settings, "--installed": request.installed}
    said += [word for name, values in several.items() for value in values for word in (name, value)]
    return shlex.join([*said, *(("--", *request.extra) if request.extra else ())])


def _method_options(recipe: Recipe, job: RecipeJob) -> list[str]:
    """By --method alone where that is enough: a variant's name does as well."""
    device = catalogue.device_of((recipe, job))
    for name in filter(None, (job.variant, job.method)):
        with contextlib.suppress(UsageError):
            found = catalogue.select((recipe,), recipe.name, name, device, None)[1]
            if (found.method, found.variant) == (job.method, job.variant):
                return ["--method", name]
    return ["--method", job.method, *(("--variant", job.variant) if job.variant else ())]
