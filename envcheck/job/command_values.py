"""Token values of a job's command that come from this machine and the request."""

from __future__ import annotations

from pathlib import Path

from envcheck.core import paths
from envcheck.job import placeholders
from envcheck.job.request import JobRequest
from installers.recipes.recipe import Recipe


def interpreter_folder(request: JobRequest, recipe: Recipe) -> Path:
    """Return the virtual environment for a recipe that runs on the host: that of --into, else envcheck's own."""
    return (request.into or paths.environment_folder(recipe.name)).expanduser().absolute()


def fill_values(request: JobRequest, recipe: Recipe, run: Path | None) -> dict[str, str]:
    """Return token → value; without a run folder, output and log folder stay shell variables."""
    found = {}
    if recipe.image is None:
        found["python"] = str(interpreter_folder(request, recipe) / "bin" / "python")
    if request.data:
        found["data"] = str(request.data.expanduser().absolute())
    found |= placeholders.fill_placeholders(request)
    return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}
