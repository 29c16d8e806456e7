"""Apply a lock file: restrict the recipe to it, write pip's hashed requirements, and find differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envcheck.core.errors import EnvcheckError
from envcheck.core.messages import Message, _
from envcheck.core.versions import is_same_release
from installers.locks.lockfile import Lock, LockedDriverFile, LockedImage, hash_recipe
from installers.recipes.recipe import Checkout, Package, Recipe

NEXT = _("omit --locked to install the recipe's version range and write a new lock file")


class LockError(EnvcheckError):
    """The recipe or the installation does not match the lock file."""


def narrow_recipe(recipe: Recipe, lock: Lock, architecture: str, *, boxed: bool = True) -> Recipe:
    """Return the recipe with the image, versions and commits of the lock in place of its ranges and names.

    With `boxed`, the recipe's image is used.  Raises LockError if the lock is for another recipe, another version of
    it, or another architecture.
    """
    for what, wanted, has in (
        (_("recipe"), lock.recipe, recipe.name),
        (_("architecture"), lock.architecture, architecture),
        (_("version of the recipe (recipe_sha256)"), lock.recipe_sha256, hash_recipe(recipe)),
    ):
        if wanted != has:
            raise LockError(
                _(
                    "the lock file is for another {what}: expected {has}, got {wanted}",
                    what=what,
                    wanted=wanted,
                    has=has,
                ),
                NEXT,
            )
    versions: dict[str, str] = {canonicalize_name(w.name): w.version for w in lock.wheels}
    return dataclasses.replace(
        recipe,
        image=_pin_image(recipe, lock) if boxed else recipe.image,
        packages=(*(_pin_package(p, versions, lock) for p in recipe.packages), *_extra_packages(recipe, lock)),
        checkouts=tuple(_pin_checkout(c, lock) for c in recipe.checkouts),
    )


def _pin_image(recipe: Recipe, lock: Lock) -> Any:
    if recipe.image is None or lock.image is None:
        if (recipe.image is None) != (lock.image is None):
            raise LockError(
                _("the lock file lists no image, but the recipe uses one")
                if recipe.image
                else _("the lock file lists an image, but the recipe uses none"),
                NEXT,
            )
        return recipe.image
    return dataclasses.replace(
        recipe.image, references={lock.architecture: pinned_reference(lock.image)}, alternates={}
    )


def pinned_reference(image: LockedImage) -> str:
    """Return the image name with the digest in place of the tag; without a digest, the name as it is."""
    if not image.digest:
        return image.reference
    name, slash, last = image.reference.partition("@")[0].rpartition("/")
    return f"{name}{slash}{last.partition(':')[0]}@{image.digest}"


def _pin_package(package: Package, versions: Mapping[str, str], lock: Lock) -> Package:
    """Return the package pinned to the lock's version; packages of the image are pinned by the image itself."""
    bare = canonicalize_name(package.name.partition("[")[0])
    if bare not in versions and lock.image:
        return package
    if bare not in versions:
        raise LockError(_("the lock file lists no wheel for {name}", name=package.name), NEXT)
    return dataclasses.replace(package, specifier=f"=={versions[bare]}")


def _extra_packages(recipe: Recipe, lock: Lock) -> Iterator[Package]:
    """Yield dependencies of clones and builds from indexes that the recipe's packages do not use."""
    known = {package.index for package in recipe.packages}
    yield from (Package(w.name, f"=={w.version}", w.index) for w in lock.wheels if w.index not in known)


def _pin_checkout(checkout: Checkout, lock: Lock) -> Checkout:
    for commit in lock.checkouts:
        if commit.url == checkout.url and commit.directory in ("", checkout.directory):
            return dataclasses.replace(checkout, ref=commit.commit)
    raise LockError(_("the lock file lists no commit for {url}", url=checkout.url), NEXT)


def find_differences(
    lock: Lock,
    *,
    packages: Mapping[str, str] | None = None,
    image: LockedImage | None = None,
    commits: Mapping[str, str] | None = None,
) -> Iterator[Message]:
    """Yield the differences between the installation and the lock; arguments that are None are not compared.

    `packages` are versions by canonical name, `commits` are commits by directory or URL.
    """
    if image is not None and lock.image is not None:
        for key, wanted, has in (("digest", lock.image.digest, image.digest), ("id", lock.image.id, image.id)):
            if wanted and has and wanted != has:
                yield _(
                    "image {reference}: the lock file lists {key} {wanted}, got {has}",
                    reference=lock.image.reference,
                    key=key,
                    wanted=wanted,
                    has=has,
                )
    for wheel in lock.wheels if packages is not None else ():
        there = (packages or {}).get(canonicalize_name(wheel.name))
        if not _is_same_version(there, wheel.version):
            yield (
                _(
                    "{name}: the lock file lists {version}, but {there} is installed",
                    name=wheel.name,
                    version=wheel.version,
                    there=there,
                )
                if there
                else _(
                    "{name}: the lock file lists {version}, but it is not installed",
                    name=wheel.name,
                    version=wheel.version,
                )
            )
    for commit in lock.checkouts if commits is not None else ():
        here = (commits or {}).get(commit.directory) or (commits or {}).get(commit.url)
        if here != commit.commit:
            yield (
                _(
                    "{url}: the lock file lists commit {commit}, but the clone is at {here}",
                    url=commit.url,
                    commit=commit.commit,
                    here=here,
                )
                if here
                else _(
                    "{url}: the lock file lists commit {commit}, but there is no clone",
                    url=commit.url,
                    commit=commit.commit,
                )
            )


def find_installer(lock: Lock, name: str) -> LockedDriverFile:
    """Return the vendor's file for the recipe's installer of this name; raise LockError if the lock has none."""
    found = lock.driver if name == "driver" else next((each for each in lock.installers if each.name == name), None)
    if found is None:
        next_step = _(
            "run `envcheck provision --install-driver FILE.run --sha256 SUM` to record the installed {name}", name=name
        )
        raise LockError(_("the lock file lists no file for the {name}", name=name), next_step)
    return found


def explain_driver_mismatch(lock: Lock, installed: str | None) -> Message | None:
    """Return a message if the installed driver differs from the lock's; None if not, or if it is unknown."""
    wanted = lock.driver.version if lock.driver else ""
    if not lock.driver or not wanted or not installed or is_same_release(wanted, installed) is not False:
        return None
    return _(
        "driver: the lock file lists {wanted} ({file}, SHA-256 {sha256}), but {installed} is installed",
        wanted=wanted,
        file=lock.driver.file,
        sha256=lock.driver.sha256,
        installed=installed,
    )


def _is_same_version(there: str | None, wanted: str) -> bool:
    """Compare versions; 1.0 and 1.0.0 are equal."""
    try:
        return there is not None and Version(there) == Version(wanted)
    except InvalidVersion:
        return there == wanted


def explain_unsuitable_wheel(lock: Lock, python: str) -> Message | None:
    """Return a message about the first wheel that does not support this Python; None if all do, or it is unknown."""
    digits = "".join(python.split(".")[:2])
    for wheel in lock.wheels if digits else ():
        tags = parse_wheel_filename(wheel.file)[3] if wheel.file.endswith(".whl") else ()
        fits = [t for t in tags if t.abi == "abi3" or t.interpreter in ("py3", f"cp{digits}", f"py{digits}")]
        if tags and not fits:
            return _(
                "{file} in the lock file is not for Python {python}, only for {wanted}",
                file=wheel.file,
                python=python,
                wanted=lock.python or _("another version"),
            )
    return None
