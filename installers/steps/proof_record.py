"""Record a successful verification: in the state file, and in the recipe's lock."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from envcheck.settings.site_access import show_values
from installers.bundle import recipe_locks
from installers.containers import lifecycle
from installers.images import local_image
from installers.images.docker_engine import MACHINES
from installers.images.reference import parse_reference
from installers.locks.lockfile import LockedBuild, LockedImage
from installers.recipes import fingerprint
from installers.software import builds, dependencies, sources
from installers.state import state_file
from installers.state.state_file import RecipeProof
from installers.steps.work import StepContext


def keep_proof(work: StepContext) -> None:
    """Write the verification to the recipe's lock and to the state file."""
    seen, now = _record_proof(work), state_file.load_state(work.folder)
    assert now
    state_file.save_state(work.folder, replace(now, proofs={**now.proofs, work.recipe.name: seen}))


def _record_proof(work: StepContext) -> RecipeProof:
    """Return the record of the verification that just succeeded, and update the recipe's lock to match it."""
    recipe, there = work.effective_supply.recipe, work.target.read_environment()
    commits = recipe_locks.read_commits(work.recipe, work.target)
    made = builds.list_results(work.target, builds.list_builds(work.recipe, work.role))
    before = recipe_locks.load_lock(work.folder, recipe)
    requires, editable = dependencies.inspect_dependencies(work.target, [each.directory for each in recipe.checkouts])
    named = [package.name for package in recipe.packages]
    named += [library.package for library in recipe.libraries]
    put = [wheel.name for wheel in before.wheels]
    needs = dependencies.compute_closure((*named, *put, *editable, *_wheel_names(made)), requires, there.python)
    before = replace(before, site=show_values(work.effective_supply.site))
    settled = recipe_locks.drop_missing(before, there.packages, there.python, find_image(work), commits, made)
    recipe_locks.write_lock(work.folder, recipe_locks.add_shared_wheels(settled, work.folder, there.packages, needs))
    seen = {each.directory: each.commit for each in commits}
    return RecipeProof(
        digest=fingerprint.compute_fingerprint(recipe),
        python=there.python,
        packages=dict(there.packages),
        needs=tuple(sorted(needs)),
        sources={**seen, **sources.list_sums(work.target, builds.list_builds(work.recipe, work.role))},
    )


def _wheel_names(made: Sequence[LockedBuild]) -> list[str]:
    """Return the names of the packages in the wheels that builds created."""
    names: list[str] = []
    for file in (posixpath.basename(built.path) for built in made):
        with contextlib.suppress(InvalidWheelFilename):  # another kind of file
            names.append(parse_wheel_filename(file)[0])
    return names


def find_image(work: StepContext) -> LockedImage | None:
    """Return the image of the container with its digest, else with its id.

    A container made from an image that the engine already had names it by id; the engine knows the digest of its pull.
    """
    if work.client is None or work.recipe.container is None or work.effective_supply.recipe.image is None:
        return None
    found = lifecycle.inspect_container(work.client.api, work.recipe.container.name) or {}
    _, _, digest = str((found.get("Config") or {}).get("Image") or "").partition("@")
    lock, name = work.effective_supply.lock, next(iter(work.effective_supply.recipe.image.references.values()))
    if work.effective_supply.bundle and lock:
        return lock.image
    image_id = str(found.get("Image") or "")
    image = (image_id and local_image.inspect_image(work.client, image_id)) or {}
    name = work.effective_supply.recipe.image.references.get(MACHINES.get(str(image.get("Architecture")), ""), name)
    digest = digest or find_pulled_digest(image.get("RepoDigests") or (), name)
    return LockedImage(name, digest, "" if digest else image_id)


def find_pulled_digest(pulled: Sequence[str], name: str) -> str:
    """Return the digest under which a registry holds the image, "" if the engine knows none of its repository.

    Registries, mirrors among them, may differ; a repository of another path may hold other layers.
    """
    wanted = parse_reference(name).repository
    found = [parse_reference(each) for each in pulled]
    return next((each.digest for each in found if f"/{each.repository}".endswith(f"/{wanted}")), "")
