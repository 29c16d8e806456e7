"""Rules about a generated script whose recipe has changed since."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import warn
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.messages import _

# In the header of a generated script: the last line of `docker run` has the image and its command.
IMAGE = re.compile(rb"^#   docker run .*?^#       ([\w./:@-]+) \S+\n#   docker exec", re.MULTILINE | re.DOTALL)


def find_changed_recipe(context: LintContext) -> Iterator[Remark]:
    """Find a number of processes, or an image, that differs from the recipe."""
    recipe = context.recipe
    if recipe is None:
        return
    for job in context.jobs:
        if job.is_training and job.processes_per_node not in (None, recipe.processes):
            seen = _(
                "the script starts {processes} processes on each node, but its recipe starts {recipe_processes}",
                processes=job.processes_per_node,
                recipe_processes=recipe.processes,
            )
            yield warn(job, seen, _("Generate it again: {again}", again=recipe.again))
    found = IMAGE.search(context.source.raw[: 1 << 16])
    if found and recipe.image and found[1].decode() != recipe.image:
        at = ShellWord(found[1].decode(), found.start(1), found.end(1))
        yield warn(
            at,
            _("the recipe now uses another image: {image}", image=recipe.image),
            _("Generate it again: {again}", again=recipe.again),
        )
