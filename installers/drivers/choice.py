"""Which recipe's driver is meant where only the cards are named: the vendors' installers serve all.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.versions import key
from installers.recipes.recipe import Recipe


def for_device(recipe: Recipe, device: str) -> Recipe:
    """The recipe as far as this device's driver goes: in a job of mixed hardware each role has its own."""
    minima = {
        job.driver_minimum or recipe.driver_minimum for job in recipe.jobs if _device(recipe, job.device) == device
    }
    own = recipe.device == device
    return replace(
        recipe,
        device=device,
        driver_minimum=_highest([*filter(None, minima)]) or (recipe.driver_minimum if own else None),
        firmware_minimum=recipe.firmware_minimum if own else None,
        drivers=recipe.drivers if own else (),
    )


def choose(recipes: Sequence[Recipe], device: str) -> tuple[Recipe, str]:
    """The recipe that wants most of the device's driver, and a sentence where others want less."""
    fitting = [
        for_device(recipe, device)
        for recipe in recipes
        if any(_device(recipe, job.device) == device for job in recipe.jobs)
    ]
    if not fitting:
        raise UsageError(f"no recipe is for {device}", "envcheck recipes lists them")
    if any(recipe.drivers != fitting[0].drivers for recipe in fitting):
        names = ", ".join(recipe.name for recipe in fitting)
        raise UsageError(f"the recipes for {device} describe different installers", f"choose by --recipe: {names}")
    chosen = max(fitting, key=lambda recipe: key(recipe.driver_minimum or "") or ())
    minima = {recipe.name: recipe.driver_minimum for recipe in fitting}
    if len(set(minima.values())) == 1:
        return chosen, ""
    others = ", ".join(f"{name} {wanted or 'none'}" for name, wanted in minima.items() if name != chosen.name)
    return chosen, f"{chosen.name} wants most, {chosen.driver_minimum} or newer ({others}); --recipe names another"


def _device(recipe: Recipe, of_job: str) -> str:
    return of_job or recipe.device


def _highest(versions: Sequence[str]) -> str | None:
    return max(versions, key=lambda version: key(version) or (), default=None)
