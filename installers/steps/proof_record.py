"""What is written down behind a good proof: what it saw of what the recipe needs, and the recipe's lock."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from installers.bundle import lock_notes
from installers.containers import container
from installers.images import image
from installers.images.engine import MACHINES
from installers.locks.lockfile import Built, Image
from installers.recipes import recipe_digest
from installers.software import builds, dependencies, sources
from installers.state import state_file
from installers.state.state_file import Proof
from installers.steps.work import Work


def keep_proof(work: Work) -> None:
    """Into the recipe's lock, and into the state file."""
    seen, now = _record(work), state_file.load(work.folder)
    assert now
    state_file.save(work.folder, replace(now, proofs={**now.proofs, work.recipe.name: seen}))


def _record(work: Work) -> Proof:
    """The proof that has just been good; the recipe's lock is settled with it."""
    recipe, there = work.terms.recipe, work.target.environment()
    commits = lock_notes.commits(work.recipe, work.target)
    made = builds.results(work.target, builds.of_role(work.recipe, work.role))
    before = lock_notes.load(work.folder, recipe)
    requires, editable = dependencies.look(work.target, [each.directory for each in recipe.checkouts])
    named = [package.name for package in recipe.packages]
    named += [library.package for library in recipe.libraries]
    put = [wheel.name for wheel in before.wheels]
    needs = dependencies.closure((*named, *put, *editable, *_wheels(made)), requires, there.python)
    settled = lock_notes.settled(before, there.packages, there.python, find_image(work), commits, made)
    lock_notes.write(work.folder, lock_notes.completed(settled, work.folder, there.packages, needs))
    seen = {each.directory: each.commit for each in commits}
    return Proof(
        digest=recipe_digest.digest(recipe),
        python=there.python,
        packages=dict(there.packages),
        needs=tuple(sorted(needs)),
        sources={**seen, **sources.sums(work.target, builds.of_role(work.recipe, work.role))},
    )


def _wheels(made: Sequence[Built]) -> list[str]:
    """Names of the packages that builds made."""
    names: list[str] = []
    for file in (posixpath.basename(built.path) for built in made):
        with contextlib.suppress(InvalidWheelFilename):  # another kind of file
            names.append(parse_wheel_filename(file)[0])
    return names


def find_image(work: Work) -> Image | None:
    """What the container runs; its digest where it came from a registry, else its id."""
    if work.client is None or work.recipe.container is None or work.terms.recipe.image is None:
        return None
    told = container.look(work.client.api, work.recipe.container.name) or {}
    _, _, digest = str((told.get("Config") or {}).get("Image") or "").partition("@")
    lock, name = work.terms.lock, next(iter(work.terms.recipe.image.references.values()))
    if work.terms.bundle and lock:
        return lock.image
    made_of = str(told.get("Image") or "")
    about = (made_of and image.named(work.client, made_of)) or {}
    name = work.terms.recipe.image.references.get(MACHINES.get(str(about.get("Architecture")), ""), name)
    return Image(name, digest, "" if digest else str(told.get("Image") or ""))
