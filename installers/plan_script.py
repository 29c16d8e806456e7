"""Render a plan as a shell script to read, keep, and run without envcheck.  Pure.

It contains the steps, for the site that it was planned for: not the check of pip's resolution, the verification of each
card, the resume after an interruption, or the journal.
"""

from __future__ import annotations

import shlex

from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.bundle.weights_fetch import HUB_VARIABLES
from installers.plan.step import Plan, Step
from installers.recipes.recipe import Recipe
from installers.software.sources import pinned_requirements
from installers.steps.dispatch import KINDS
from installers.steps.fetch_weights import FetchWeights
from installers.steps.run_container import RunContainer
from installers.steps.shell_script import ScriptTarget, render_comment, render_secret_notes, split_secrets
from installers.steps.source_build import BuildSource

_AT_HOST = ('at() ( cd -- "$1" && shift && "$@" )',)


def render_script(recipe: Recipe, plan: Plan, interpreter: str = "python3", site: SiteAccess = NO_SITE) -> str:
    """Return the script; `interpreter` is the Python that creates a new environment."""
    at = ScriptTarget(recipe, plan.folder, plan.container, interpreter, site)
    blocks = [_render_header(plan), *([_render_setup(plan, at)] if plan.steps else [])]
    blocks += [_render_step(number, step, at) for number, step in enumerate(plan.steps, 1)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _render_header(plan: Plan) -> list[str]:
    place = f"container {plan.container}" if plan.container else str(plan.folder)
    lines = [
        "#!/usr/bin/env bash",
        *render_comment(f"{plan.recipe} in {place}, planned by envcheck provision --as-script."),
    ]
    for fact in plan.satisfied:
        lines += render_comment(f"ok: {fact}")
    for hand in plan.manual_steps:
        lines += render_comment(f"manual: {hand.name}: {hand.why}")
        lines += [f"#   {' '.join(command.split())}" for command in hand.commands]
    for text in plan.notes:
        lines += render_comment(f"note: {text}")
    for obstacle in plan.obstacles:
        lines += render_comment(f"blocked: {obstacle.why}. Next: {obstacle.remedy}")
    if not plan.steps:
        lines.append("# Nothing to do.")
    return [*lines, "set -euo pipefail"]


def _render_setup(plan: Plan, at: ScriptTarget) -> list[str]:
    """Return the lines before the steps: the target, and the versions that no step may change."""
    wanted = shlex.join(pinned_requirements(at.recipe))
    certificate = site_access.CA_IN_CONTAINER if at.container else ""
    open_variables, secret = split_secrets(site_access.list_variables(at.site, certificate))
    notes = render_secret_notes(secret)
    if not at.container:
        lines = [f"venv={shlex.quote(str(at.folder))}"]
        if wanted:
            lines += ["limits=$(mktemp)", "trap 'rm -f -- \"$limits\"' EXIT", f"printf '%s\\n' {wanted} > \"$limits\""]
        exports = (f"export {name}={shlex.quote(value)}" for name, value in open_variables.items())
        return [*notes, *exports, *lines, *(_AT_HOST if _has_builds(plan) else ())]
    words = [f"{name}={value}" for name, value in open_variables.items()] + secret
    if any(isinstance(step, FetchWeights) for step in plan.steps):
        words += [name for name in HUB_VARIABLES if name not in open_variables]
    given = shlex.join(word for each in ("PIP_BREAK_SYSTEM_PACKAGES=1", *words) for word in ("--env", each))
    call = f'{shlex.quote(at.container)} bash -lc \'exec "$@"\' bash "$@"'
    return [
        *notes,
        "# Commands run in a login shell, because the images set their paths in its start files.",
        f"inside() {{ docker exec {given} {call}; }}",
        *(
            [f'at() {{ local folder="$1"; shift; docker exec {given} --workdir "$folder" {call}; }}']
            if _has_builds(plan)
            else []
        ),
        *(() if any(isinstance(step, RunContainer) for step in plan.steps) else at.write_container_limits()),
    ]


def _has_builds(plan: Plan) -> bool:
    return any(isinstance(step, BuildSource) for step in plan.steps)


def _render_step(number: int, step: Step, at: ScriptTarget) -> list[str]:
    return [
        *render_comment(f"{number}. {step.title}"),
        *render_comment(f"reason: {step.why}; changes: {step.changes}; root: {step.root_words}; undo: {step.undo}"),
        *KINDS[type(step)].script(step, at),
    ]
