"""What a lock means for a provisioning: the recipe narrowed to it, pip's hashed lines, and the first difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envcheck.core.errors import EnvcheckError
from envcheck.core.versions import same_release
from installers.locks.lockfile import DriverFile, Image, Lock, recipe_hash
from installers.recipes.recipe import Checkout, Package, Recipe

NEXT = "without --locked the recipe's own range is installed, and a new lock written"


class LockError(EnvcheckError):
    """What is wanted or there is not what the lock says; named in one sentence."""


def narrowed(recipe: Recipe, lock: Lock, architecture: str, *, boxed: bool = True) -> Recipe:
    """The recipe with the lock's own image, versions and commits in place of its ranges and names.

    `boxed`: the recipe's image is wanted, where it has one.  LockError where the lock is of another recipe, of another
    state of it, or of another architecture.
    """
    for what, wanted, has in (
        ("recipe", lock.recipe, recipe.name),
        ("architecture", lock.architecture, architecture),
        ("recipe's content (recipe_sha256)", lock.recipe_sha256, recipe_hash(recipe)),
    ):
        if wanted != has:
            raise LockError(f"the lock is of another {what}: it says {wanted}, here it is {has}", NEXT)
    versions: dict[str, str] = {canonicalize_name(w.name): w.version for w in lock.wheels}
    return dataclasses.replace(
        recipe,
        image=_image(recipe, lock) if boxed else recipe.image,
        packages=(*(_package(p, versions, lock) for p in recipe.packages), *_beside(recipe, lock)),
        checkouts=tuple(_checkout(c, lock) for c in recipe.checkouts),
    )


def _image(recipe: Recipe, lock: Lock) -> Any:
    if recipe.image is None or lock.image is None:
        if (recipe.image is None) != (lock.image is None):
            raise LockError(f"the lock has {'no' if recipe.image else 'an'} image", NEXT)
        return recipe.image
    return dataclasses.replace(recipe.image, references={lock.architecture: pinned(lock.image)}, alternates={})


def pinned(image: Image) -> str:
    """What is pulled: the name with the digest, which no tag can move."""
    if not image.digest:
        return image.reference
    name, slash, last = image.reference.partition("@")[0].rpartition("/")
    return f"{name}{slash}{last.partition(':')[0]}@{image.digest}"


def _package(package: Package, versions: Mapping[str, str], lock: Lock) -> Package:
    """What came with the image is pinned by the image."""
    bare = canonicalize_name(package.name.partition("[")[0])
    if bare not in versions and lock.image:
        return package
    if bare not in versions:
        raise LockError(f"the lock has no wheel for {package.name}", NEXT)
    return dataclasses.replace(package, specifier=f"=={versions[bare]}")


def _beside(recipe: Recipe, lock: Lock) -> Iterator[Package]:
    """What clones and builds need, from an index that no package of the recipe's comes from: one more group for pip."""
    known = {package.index for package in recipe.packages}
    yield from (Package(w.name, f"=={w.version}", w.index) for w in lock.wheels if w.index not in known)


def _checkout(checkout: Checkout, lock: Lock) -> Checkout:
    for commit in lock.checkouts:
        if commit.url == checkout.url and commit.directory in ("", checkout.directory):
            return dataclasses.replace(checkout, ref=commit.commit)
    raise LockError(f"the lock has no commit for {checkout.url}", NEXT)


def requirements(lock: Lock, index: str | None = None) -> str:
    """A requirements file that lets pip install these very files and nothing else; `index` None means all of them.

    Given with --no-deps: the lock holds the dependencies too.
    """
    wheels = [w for w in lock.wheels if index is None or w.index == index]
    return "".join(f"{w.name}=={w.version}{''.join(f' --hash=sha256:{s}' for s in w.sums)}\n" for w in wheels)


def pip_arguments(file: str, *, index: str = "", find_links: str = "") -> tuple[str, ...]:
    """What follows `pip` to install a requirements file of ours; `find_links` is a folder, and no network is used."""
    where = ("--no-index", f"--find-links={find_links}") if find_links else ()
    own = (f"--index-url={index}",) if index and not find_links else ()
    return ("install", "--require-hashes", "--no-deps", *where, *own, f"--requirement={file}")


def indexes(lock: Lock) -> tuple[str, ...]:
    """The indexes of the wheels, in order; one call of pip for each."""
    return tuple(dict.fromkeys(wheel.index for wheel in lock.wheels))


def differences(
    lock: Lock,
    *,
    packages: Mapping[str, str] | None = None,
    image: Image | None = None,
    commits: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """What is there and is not as the lock says, the first one first; what is None was not looked at.

    `packages` are versions by canonical name, `commits` commits by directory or address.
    """
    if image is not None and lock.image is not None:
        for key, wanted, has in (("digest", lock.image.digest, image.digest), ("id", lock.image.id, image.id)):
            if wanted and has and wanted != has:
                yield f"image {lock.image.reference}: the lock's {key} is {wanted}, the one here {has}"
    for wheel in lock.wheels if packages is not None else ():
        there = (packages or {}).get(canonicalize_name(wheel.name))
        if not _same(there, wheel.version):
            yield f"{wheel.name}: the lock has {wheel.version}, {'there is ' + there if there else 'it is not there'}"
    for commit in lock.checkouts if commits is not None else ():
        here = (commits or {}).get(commit.directory) or (commits or {}).get(commit.url)
        if here != commit.commit:
            instead = f"there is {here}" if here else "no clone is there"
            yield f"{commit.url}: the lock has commit {commit.commit}, {instead}"


def installer(lock: Lock, name: str) -> DriverFile:
    """The vendor's file for the recipe's installer of this name; LockError where the lock has none."""
    found = lock.driver if name == "driver" else next((each for each in lock.installers if each.name == name), None)
    if found is None:
        next_step = f"envcheck provision --driver FILE.run --sha256 SUM records the {name} that it installs"
        raise LockError(f"the lock has no file for the {name}", next_step)
    return found


def another_driver(lock: Lock, installed: str | None) -> str | None:
    """In a sentence, that the installed driver is not the lock's; None where it is, or nobody can tell."""
    wanted = lock.driver.version if lock.driver else ""
    if not lock.driver or not wanted or not installed or same_release(wanted, installed) is not False:
        return None
    return f"driver: the lock has {wanted} ({lock.driver.file}, SHA-256 {lock.driver.sha256}), here it is {installed}"


def _same(there: str | None, wanted: str) -> bool:
    """1.0 and 1.0.0 are one version."""
    try:
        return there is not None and Version(there) == Version(wanted)
    except InvalidVersion:
        return there == wanted


def unsuitable(lock: Lock, python: str) -> str | None:
    """The first file that is not for this Python, in a sentence; a version that nobody knows suits all."""
    digits = "".join(python.split(".")[:2])
    for wheel in lock.wheels if digits else ():
        tags = parse_wheel_filename(wheel.file)[3] if wheel.file.endswith(".whl") else ()
        fits = [t for t in tags if t.abi == "abi3" or t.interpreter in ("py3", f"cp{digits}", f"py{digits}")]
        if tags and not fits:
            return f"{wheel.file} of the lock is not for Python {python}, only for {lock.python or 'another one'}"
    return None


def demand(found: Iterable[str]) -> None:
    """LockError with the first difference."""
    for difference in found:
        raise LockError(difference, NEXT)
