"""Choose the recipe whose driver to install when only the device kind is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, join
from envcheck.core.versions import sort_key
from installers.recipes.recipe import Recipe, list_driver_minimums


def narrow_to_device(recipe: Recipe, device: str) -> Recipe:
    """Return the recipe reduced to one device's driver and firmware; mixed jobs have one driver per role."""
    own = recipe.device == device
    return replace(
        recipe,
        device=device,
        driver_minimum=_highest_version(list_driver_minimums(recipe, device))
        or (recipe.driver_minimum if own else None),
        firmware_minimum=recipe.firmware_minimum if own else None,
        drivers=recipe.drivers if own else (),
    )


def choose_recipe(recipes: Sequence[Recipe], device: str) -> tuple[Recipe, Message]:
    """Return the recipe with the highest driver requirement for the device, and a note if others require less.

    UsageError if no recipe fits or the recipes use different installers.
    """
    fitting = [
        narrow_to_device(recipe, device)
        for recipe in recipes
        if any((job.device or recipe.device) == device for job in recipe.jobs)
    ]
    if not fitting:
        raise UsageError(_("no recipe for device {device}", device=device), _("list the recipes: `envcheck recipes`"))
    if any(recipe.drivers != fitting[0].drivers for recipe in fitting):
        names = join(", ", (recipe.name for recipe in fitting))
        raise UsageError(
            _("the recipes for {device} use different driver installers", device=device),
            _("choose one with --recipe: {names}", names=names),
        )
    chosen = max(fitting, key=lambda recipe: sort_key(recipe.driver_minimum or "") or ())
    minima = {recipe.name: recipe.driver_minimum for recipe in fitting}
    if len(set(minima.values())) == 1:
        return chosen, NOTHING
    others = join(
        ", ",
        (
            _("{recipe} {version}", recipe=name, version=wanted or _("none"))
            for name, wanted in minima.items()
            if name != chosen.name
        ),
    )
    return chosen, _(
        "{recipe} has the highest requirement, {version} or newer ({others}); choose another with --recipe",
        recipe=chosen.name,
        version=chosen.driver_minimum,
        others=others,
    )


def _highest_version(versions: Sequence[str]) -> str | None:
    return max(versions, key=lambda version: sort_key(version) or (), default=None)
