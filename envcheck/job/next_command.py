"""What to do next on a machine where nothing is amiss: provision, train, or look for another recipe.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.job import Job
from envcheck.job.judgement import judge_idle
from envcheck.job.repeat_options import format_job_options
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.select import NoFittingRecipeError
from envcheck.report.contents import NextCommand
from installers.recipes.recipe import Recipe
from installers.recipes.recipe_digest import digest

UNFIT = NextCommand("No recipe fits this machine. See what each is for:", "envcheck recipes")


def suggest_command(
    request: JobRequest, job: Job | None, catalogue: Sequence[Recipe], facts: Facts, ask: bool = True
) -> NextCommand:
    """For the job that was named, else for the one that `provision` would choose for this machine.

    `ask` False: nobody is there whom provision could ask.
    """
    try:
        found = job or resolve(replace(request, may_choose=True), catalogue, facts)
    except (UsageError, NoFittingRecipeError):
        return UNFIT
    judged = judge_idle((found.recipe, found.method), facts)
    if not found.is_for_this_machine or judged.unfit:
        return UNFIT
    if judged.outdated:
        own = f" --recipes {shlex.quote(str(request.recipes))}" if request.recipes else ""
        needs = "; ".join(finding.seen for finding in judged.outdated)
        words = (
            f"No recipe of a whole model runs with this driver, {found.recipe.name} with a newer one: {needs}. See it:"
        )
        return NextCommand(words, f"envcheck recipes show {found.recipe.name}{own}")
    yes = "" if ask else " --yes"
    options = format_job_options(request, found.recipe, found.method)
    if facts.proofs.get(found.recipe.name) == digest(found.recipe):
        return NextCommand("Start the training:", f"envcheck train {options}")
    if found.image or needs_weights(found):
        fetch = " --fetch-weights" if needs_weights(found) else ""
        return NextCommand("Install what the training needs:", f"envcheck provision {options}{fetch}{yes}")
    return NextCommand("Install what the training needs, and start it:", f"envcheck train {options} --provision{yes}")


def needs_weights(job: Job) -> bool:
    """The training does not start before the recipe's weights are in their folder: no upstream fetches them there."""
    return job.recipe.weights is not None and any(path.endswith("/config.json") for path in job.method.requires)
