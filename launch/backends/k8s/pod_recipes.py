"""Extra recipe files for the preflight checks in a pod: the user's recipes, and variants with the image of the job for
recipes without one, so that they are checked as a container and not as an environment of the host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from installers.recipes.recipe import Recipe
from launch.backends.k8s.k8s_options import PodGroup
from launch.targets.train_request import TrainRequest

SUFFIX = "-in-a-pod"
LIMIT = 128 << 10  # bytes of all files; a ConfigMap can have 1 MiB


def build_recipe_files(request: TrainRequest, groups: tuple[PodGroup, ...]) -> dict[str, str]:
    """Return file name → text; {} if the recipes of envcheck suffice."""
    found = {}
    for path in sorted(request.recipes.glob("*.toml")) if request.recipes else ():
        found[path.name] = toml_file.read_text(path, LIMIT, _("recipe"))
    for part in groups:
        if not part.recipe.image:
            found[f"{part.recipe.name}{SUFFIX}.toml"] = _render_image_recipe(part)
    if sum(map(len, found.values())) > LIMIT:
        raise UsageError(
            _("the recipes in {folder} are larger than {limit} KiB", folder=request.recipes, limit=LIMIT >> 10),
            _("pass a folder with only the required recipe to --recipes"),
        )
    return found


def rename_for_pod(recipe: Recipe) -> Recipe:
    """Return the recipe with its name in the pod."""
    return recipe if recipe.image else replace(recipe, name=f"{recipe.name}{SUFFIX}")


def _render_image_recipe(part: PodGroup) -> str:
    recipe = part.recipe
    image = f'{{ value = {json.dumps(part.image)}, source = "--image" }}'
    return (
        f"like = {json.dumps(Path(recipe.file).stem)}\nname = {json.dumps(recipe.name + SUFFIX)}\n"
        f"title = {json.dumps(recipe.title)}\nmodels = {json.dumps(list(recipe.models))}\n\n"
        f"[image.references]\nx86_64 = {image}\naarch64 = {image}\n"
    )
