"""The recipe's job from which envcheck generated a script, as named in its header."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.script_model import SourceFile
from envcheck.core.lint.script_recipe import ScriptRecipe
from envcheck.job.definition import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe

HEAD_LINES = 12
# "# qwen-7b-npu-swift, lora zero3: LoRA on four cards"; after the method a variant, and a role in brackets.
TITLE = re.compile(r"# ([\w.-]+), ([\w.-]+)(?: ([\w.-]+))?(?: \(([\w-]+)\))?:( |$)")
WRITTEN = "# Written by envcheck train"


def read_head(source: SourceFile) -> JobRequest | None:
    """Return the job in the header; None for any other script."""
    lines = [source.read_line(number) for number in range(1, min(HEAD_LINES, len(source.line_starts)) + 1)]
    title = TITLE.match(lines[1]) if len(lines) > 1 else None
    if title is None or not any(line.startswith(WRITTEN) for line in lines):
        return None
    recipe, method, variant, role = title.groups()[:4]
    return JobRequest(recipe=recipe, method=method, variant=variant, node_role=role)


def resolve_script_job(context: LintContext) -> Job | None:
    """Return the job, resolved for the selected machine with the script's nodes and devices, if the recipe allows them;
    None if the script names no known recipe.
    """
    request = read_head(context.source)
    if request is None:
        return None
    recipes, facts = catalogue.load_all(None), context.machine.facts or Facts()
    job = _try_resolve(request, recipes, facts)
    training = next((each for each in context.jobs if each.is_training), None)
    if job is None or training is None or training.processes_per_node in (None, job.method.processes):
        return job
    nodes = training.node_count if training.node_count != job.method.nodes else None
    return _try_resolve(replace(request, cards=training.processes_per_node, nnodes=nodes), recipes, facts) or job


def _try_resolve(request: JobRequest, recipes: Sequence[Recipe], facts: Facts) -> Job | None:
    with contextlib.suppress(EnvcheckError):
        return resolve(request, recipes, facts)
    return None


def describe_recipe(job: Job) -> ScriptRecipe:
    """Return the recipe's values for the rules, which must not import jobs."""
    named = {"--recipe": job.recipe.name, "--method": job.method.method, "--variant": job.method.variant}
    named |= {"--node-role": job.method.role}
    words = " ".join(f"{option} {value}" for option, value in named.items() if value)
    return ScriptRecipe(f"envcheck train {words} --as-script", job.method.processes, job.image)
