"""A plan as a shell script that does what the plan says, to be read, kept, and run by hand.  Pure.

It is the plan's straight way.  What envcheck does beside it (judging pip's answer beforehand, proving each card, going
on after a cut, a journal) is not in it.
"""

from __future__ import annotations

import shlex

from installers.plan.step import Plan, Step
from installers.recipes.recipe import Recipe
from installers.software.sources import pins
from installers.steps.dispatch import KINDS
from installers.steps.run_container import RunContainer
from installers.steps.shell_script import ScriptTarget, comment
from installers.steps.source_build import BuildSource

_AT_HOST = ('at() ( cd -- "$1" && shift && "$@" )',)


def script(recipe: Recipe, plan: Plan, interpreter: str = "python3") -> str:
    """`interpreter` is the Python of which a new environment is made."""
    at = ScriptTarget(recipe, plan.folder, plan.boxed, interpreter)
    blocks = [_head(plan), *([_setting(plan, at)] if plan.steps else [])]
    blocks += [_step(number, step, at) for number, step in enumerate(plan.steps, 1)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(plan: Plan) -> list[str]:
    place = f"the container {plan.boxed}" if plan.boxed else str(plan.folder)
    lines = [
        "#!/usr/bin/env bash",
        *comment(f"{plan.recipe} in {place}, as envcheck provision --as-script planned it."),
    ]
    for fact in plan.satisfied:
        lines += comment(f"Already so: {fact}")
    for hand in plan.by_hand:
        lines += comment(f"By hand, {hand.name}: {hand.why}")
        lines += [f"#   {' '.join(command.split())}" for command in hand.commands]
    for words in plan.mind:
        lines += comment(f"Mind: {words}")
    for obstacle in plan.obstacles:
        lines += comment(f"In the way: {obstacle.why}. Next: {obstacle.remedy}")
    if not plan.steps:
        lines.append("# Nothing to do.")
    return [*lines, "set -euo pipefail"]


def _setting(plan: Plan, at: ScriptTarget) -> list[str]:
    """What the steps share: where they work, and the versions that none of them may move."""
    wanted = shlex.join(pins(at.recipe))
    if not at.container:
        lines = [f"venv={shlex.quote(str(at.folder))}"]
        if wanted:
            lines += ["limits=$(mktemp)", "trap 'rm -f -- \"$limits\"' EXIT", f"printf '%s\\n' {wanted} > \"$limits\""]
        return [*lines, *(_AT_HOST if _builds(plan) else ())]
    call = f'{shlex.quote(at.container)} bash -lc \'exec "$@"\' bash "$@"'
    return [
        "# In a login shell, since the images put their paths into its start files.",
        f"inside() {{ docker exec --env PIP_BREAK_SYSTEM_PACKAGES=1 {call}; }}",
        *([f'at() {{ local folder="$1"; shift; docker exec --workdir "$folder" {call}; }}'] if _builds(plan) else []),
        *(() if any(isinstance(step, RunContainer) for step in plan.steps) else at.boxed_limits()),
    ]


def _builds(plan: Plan) -> bool:
    return any(isinstance(step, BuildSource) for step in plan.steps)


def _step(number: int, step: Step, at: ScriptTarget) -> list[str]:
    return [
        *comment(f"{number}. {step.title}"),
        *comment(f"why: {step.why}; changes: {step.changes}; root: {step.root_words}; undo: {step.undo}"),
        *KINDS[type(step)].script(step, at),
    ]
