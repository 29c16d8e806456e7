"""What decides whether a proof of a recipe still counts, in one short word."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from installers.recipes.recipe import Recipe

PROOF = 1  # raised when the proof asks for more, so that old marks no longer count


def digest(recipe: Recipe) -> str:
    """A hash of all that decides what is installed and what is proved."""
    lists = (recipe.packages, recipe.checkouts, recipe.builds)
    image = dict(recipe.image.references) if recipe.image else {}
    wanted = [PROOF, recipe.python, *([asdict(each) for each in listed] for listed in lists), recipe.verify, image]
    wanted += [dict(recipe.environment), recipe.scripts, recipe.device, recipe.hardware.cards]
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
