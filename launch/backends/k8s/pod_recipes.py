"""Recipes that a pod's gates read beside envcheck's: the user's own, and one that has the image where a recipe names
none: it is then looked at as what runs in a container, not as an environment of the host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from installers.recipes.recipe import Recipe
from launch.backends.k8s.k8s_options import PodGroup
from launch.targets.request import TrainRequest

SUFFIX = "-in-a-pod"
LIMIT = 128 << 10  # bytes of all: a ConfigMap holds a MiB


def files(request: TrainRequest, every: tuple[PodGroup, ...]) -> dict[str, str]:
    """Name -> text; () where envcheck's own recipes do."""
    found = {}
    for path in sorted(request.recipes.glob("*.toml")) if request.recipes else ():
        found[path.name] = toml_file.text(path, LIMIT, "recipe")
    for part in every:
        if not part.recipe.image:
            found[f"{part.recipe.name}{SUFFIX}.toml"] = _with_image(part)
    if sum(map(len, found.values())) > LIMIT:
        raise UsageError(
            f"{request.recipes}: more than {LIMIT >> 10} KiB of recipes", "name a folder of the one wanted"
        )
    return found


def renamed(recipe: Recipe) -> Recipe:
    """By the name that it has in the pod."""
    return recipe if recipe.image else replace(recipe, name=f"{recipe.name}{SUFFIX}")


def _with_image(part: PodGroup) -> str:
    recipe = part.recipe
    image = f'{{ value = {json.dumps(part.image)}, source = "--image" }}'
    return (
        f"like = {json.dumps(Path(recipe.file).stem)}\nname = {json.dumps(recipe.name + SUFFIX)}\n"
        f"title = {json.dumps(recipe.title)}\nmodels = {json.dumps(list(recipe.models))}\n\n"
        f"[image.references]\nx86_64 = {image}\naarch64 = {image}\n"
    )
