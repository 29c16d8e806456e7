"""The fingerprint that decides whether an earlier verification of a recipe is still valid."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from installers.recipes.recipe import Recipe

PROOF = 1  # increase it when the verification checks more: this invalidates all earlier verifications


def compute_fingerprint(recipe: Recipe) -> str:
    """Return 16 hexadecimal digits: a hash of everything that decides what is installed and verified."""
    lists = (recipe.packages, recipe.checkouts, recipe.builds)
    image = dict(recipe.image.references) if recipe.image else {}
    wanted = [PROOF, recipe.python, *([asdict(each) for each in listed] for listed in lists), recipe.verify, image]
    wanted += [dict(recipe.environment), recipe.scripts, recipe.device, recipe.hardware.cards]
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
