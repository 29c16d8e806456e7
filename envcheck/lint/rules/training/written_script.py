"""A script that envcheck wrote, beside what its recipe would run now."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.remarks import warn

# In the head of a script of envcheck's: the last row of `docker run` names the image and what starts in it.
IMAGE = re.compile(rb"^#   docker run .*?^#       ([\w./:@-]+) \S+\n#   docker exec", re.MULTILINE | re.DOTALL)


def recipe_changed(context: LintContext) -> Iterator[Remark]:
    """Another number of processes, or another image, than the recipe has."""
    recipe = context.recipe
    if recipe is None:
        return
    for job in context.jobs:
        if job.trains and job.processes not in (None, recipe.processes):
            seen = f"{job.processes} processes on each node, and its recipe starts {recipe.processes}"
            yield warn(job, seen, f"Write it again: {recipe.again}")
    found = IMAGE.search(context.source.raw[: 1 << 16])
    if found and recipe.image and found[1].decode() != recipe.image:
        at = Word(found[1].decode(), found.start(1), found.end(1))
        yield warn(at, f"its recipe has another image: {recipe.image}", f"Write it again: {recipe.again}")
