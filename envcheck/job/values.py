"""What this machine and the request fill into a job's command, and where its environment is."""

from __future__ import annotations

from pathlib import Path

from envcheck.core import paths
from envcheck.job import placeholders
from envcheck.job.request import JobRequest
from installers.recipes.recipe import Recipe


def interpreter_folder(request: JobRequest, recipe: Recipe) -> Path:
    """The virtual environment of a recipe that runs on the host: the one that was named, else envcheck's own."""
    return (request.into or paths.environment_folder(recipe.name)).expanduser().absolute()


def fill_values(request: JobRequest, recipe: Recipe, run: Path | None) -> dict[str, str]:
    """Token to text; without a run the script's own variables stay."""
    found = {}
    if recipe.image is None:
        found["python"] = str(interpreter_folder(request, recipe) / "bin" / "python")
    if request.data:
        found["data"] = str(request.data.expanduser().absolute())
    found |= placeholders.fill_placeholders(request)
    return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}
