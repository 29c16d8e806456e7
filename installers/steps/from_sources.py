"""The steps for what a recipe has beside packages: clones, and what is built from them."""

from __future__ import annotations

from collections.abc import Iterator

from installers.plan.requirement import Need
from installers.recipes.recipe import Recipe
from installers.software.sources import Sources, needs
from installers.steps.model import Step


def steps(recipe: Recipe, seen: Sources, role: str) -> Iterator[Step]:
    for need, checkout, build in needs(recipe, seen, role):
        if isinstance(need, Need):
            name = "clone" if checkout else "build"
            words = (need.title, need.why or need.obstacle, need.changes or "nothing", need.undo)
            yield Step(name, *words, need.size_mib, checkout=checkout, build=build)
