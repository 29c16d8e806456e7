"""Suggest the next command on a machine without problems: provision, train, or choose another recipe.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _, join
from envcheck.job.definition import Job
from envcheck.job.judgement import judge_idle
from envcheck.job.repeat_options import format_job_options
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.select import NoFittingRecipeError
from envcheck.report.contents import NextCommand
from installers.recipes.fingerprint import compute_fingerprint
from installers.recipes.recipe import Recipe, RecipeJob

UNFIT = NextCommand(_("No recipe fits this machine. List all recipes:"), "envcheck recipes")


def suggest_command(
    request: JobRequest, job: Job | None, catalogue: Sequence[Recipe], facts: Facts, ask: bool = True
) -> NextCommand:
    """Return the next command for the given job, else for the job that `provision` would choose on this machine.

    `ask` False adds --yes: there is no terminal to confirm on.
    """
    try:
        found = job or resolve(replace(request, may_choose=True), catalogue, facts)
    except (UsageError, NoFittingRecipeError):
        return UNFIT
    judged = judge_idle((found.recipe, found.method), facts)
    if not found.is_for_this_machine or judged.unmet_findings:
        return UNFIT
    if judged.outdated_findings:
        own = f" --recipes {shlex.quote(str(request.recipes))}" if request.recipes else ""
        needs = join("; ", (finding.seen for finding in judged.outdated_findings))
        words = _(
            "Update the driver to train a full model: {needs}. Show the recipe:",
            needs=needs,
        )
        return NextCommand(words, f"envcheck recipes show {found.recipe.name}{own}")
    yes = "" if ask else " --yes"
    options = format_job_options(request, found.recipe, found.method)
    if found.own is not None:
        return NextCommand(_("Start the training:"), f"envcheck train {options}")
    if facts.proofs.get(found.recipe.name) == compute_fingerprint(found.recipe):
        return NextCommand(_("Start the training:"), f"envcheck train {options}")
    has_weights = needs_weights(found.recipe, found.method)
    if found.image or has_weights:
        fetch = " --fetch-weights" if has_weights else ""
        return NextCommand(_("Install the training environment:"), f"envcheck provision {options}{fetch}{yes}")
    return NextCommand(
        _("Install the training environment and start the training:"), f"envcheck train {options} --provision{yes}"
    )


def needs_weights(recipe: Recipe, job: RecipeJob) -> bool:
    """Whether the recipe's weights must be downloaded before the training: no upstream does it."""
    return recipe.weights is not None and any(path.endswith("/config.json") for path in job.requires)
