"""The recipe's job that a script of envcheck's own was written from, as its head names it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Source
from envcheck.core.lint.script_recipe import ScriptRecipe
from envcheck.job.job import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe

HEAD_LINES = 12
# "# qwen-7b-npu-swift, lora zero3: LoRA on four cards"; behind the method a variant, and a role in brackets.
TITLE = re.compile(r"# ([\w.-]+), ([\w.-]+)(?: ([\w.-]+))?(?: \(([\w-]+)\))?:( |$)")
WRITTEN = "# Written by envcheck train"


def read_head(source: Source) -> JobRequest | None:
    """The job that the head names; None for a script of somebody else's."""
    lines = [source.line(number) for number in range(1, min(HEAD_LINES, len(source.starts)) + 1)]
    title = TITLE.match(lines[1]) if len(lines) > 1 else None
    if title is None or not any(line.startswith(WRITTEN) for line in lines):
        return None
    recipe, method, variant, role = title.groups()[:4]
    return JobRequest(recipe=recipe, method=method, variant=variant, node_role=role)


def resolve_script_job(context: LintContext) -> Job | None:
    """Resolved for the machine that is meant, on as many nodes and cards as the script says, where the recipe can have
    them; None where the script names no recipe that there is."""
    request = read_head(context.source)
    if request is None:
        return None
    recipes, facts = catalogue.load_all(None), context.machine.facts or Facts()
    job = _resolve(request, recipes, facts)
    training = next((each for each in context.jobs if each.trains), None)
    if job is None or training is None or training.processes in (None, job.method.processes):
        return job
    nodes = training.nodes if training.nodes != job.method.nodes else None
    return _resolve(replace(request, cards=training.processes, nnodes=nodes), recipes, facts) or job


def _resolve(request: JobRequest, recipes: Sequence[Recipe], facts: Facts) -> Job | None:
    with contextlib.suppress(EnvcheckError):
        return resolve(request, recipes, facts)
    return None


def describe_recipe(job: Job) -> ScriptRecipe:
    """For the rules, which stand below jobs."""
    named = {"--recipe": job.recipe.name, "--method": job.method.method, "--variant": job.method.variant}
    named |= {"--node-role": job.method.role}
    words = " ".join(f"{option} {value}" for option, value in named.items() if value)
    return ScriptRecipe(f"envcheck train {words} --as-script", job.method.processes, job.image)
