"""A bundle on the machine that shall use it: all of it is checked before anything is changed, then it is taken apart.

found = read_bundle.verify(path, architecture, report)      # raises BundleError; writes nothing
parts = read_bundle.unpack(found)                           # recipe, lock, wheels, clones below ENVCHECK_HOME
for chunk in read_bundle.image_stream(found, report): ...   # what the engine's load wants
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envcheck.core import paths
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.units import gib
from envcheck.payload.unpack import FILE
from installers.bundle import image_layout, tar
from installers.bundle.contents import bundle_name
from installers.bundle.format import (
    AGAIN,
    HEAD,
    INDEX,
    LOCK,
    MANIFEST,
    MANIFEST_LIMIT,
    RECIPE,
    SMALL_LIMIT,
    BundleError,
    Head,
    Member,
    head_of,
    manifest_of,
)  # fmt: skip
from installers.bundle.image_layout import BundledImage, Unpacked
from installers.bundle.tar import content
from installers.locks import lockfile
from installers.locks.lockfile import Lock
from installers.recipes import recipes_file
from installers.recipes.recipe import Recipe
from installers.state.progress import Event, Report

# A wheel with more than this is none: paddlepaddle-gpu with its libraries unpacks to some 4 GB, at a ratio of 2 to 3.
WHEEL_LIMIT, RATIO_LIMIT = 64 << 30, 200
SPARE_BYTES = 256 << 20


def silent(event: Event) -> None:
    """A report that tells nobody."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that was looked through; `identity` tells this very file from one that was put in its place."""

    path: Path
    head: Head
    members: Mapping[str, Member]
    recipe: Recipe
    lock: Lock
    image: BundledImage | None
    manifest_sha256: str
    identity: tuple[int, ...]

    @property
    def folder(self) -> Path:
        """Where it is taken apart."""
        return paths.home() / "bundles" / self.manifest_sha256[:32]


@dataclass(frozen=True)
class UnpackedBundle:
    """What was taken out; `wheels` is a folder for pip's --find-links, `checkouts` holds NAME.bundle for git clone."""

    folder: Path
    recipe: Recipe
    lock: Lock
    image: BundledImage | None

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def checkouts(self) -> Path:
        return self.folder / "checkouts"

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    @property
    def builds(self) -> Path:
        """Each named after its sum."""
        return self.folder / "builds"


def verify(path: Path, architecture: str, report: Report = silent) -> Bundle:
    """The bundle, every byte of it checked; BundleError in a sentence for any that may not be used here.

    What a glance shows (another schema or architecture, a cut-off file) is told before gigabytes are read.
    """
    with _opened(path) as file:
        found = _glance(file, path, architecture)
        if not (found.folder / ".whole").exists() or _remembered(found) != _identity(file):
            _read_all(file, found, report)
            if found.image:
                _layers(file, found, found.image)
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        if not path.is_file():
            raise BundleError(f"{path} is no file", "give the file that envcheck bundle wrote")
        with path.open("rb", buffering=0) as file:
            yield file
    except OSError as err:
        raise BundleError(f"{path} cannot be read: {(err.strerror or str(err)).lower()}", AGAIN) from None


def _identity(file: BinaryIO) -> tuple[int, ...]:
    told = os.fstat(file.fileno())
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns


def _remembered(found: Bundle) -> tuple[int, ...]:
    """Of the file that was read whole when its parts were taken out."""
    try:
        return tuple(int(word) for word in (found.folder / ".whole").read_text("ascii")[:200].split())
    except (OSError, ValueError):
        return ()


def _glance(file: BinaryIO, path: Path, architecture: str) -> Bundle:
    """Headers and descriptions."""
    name = path.name
    walk = tar.walk(file, name)
    first = next(walk, None)
    if first is None or first.name != HEAD or first.size > SMALL_LIMIT:
        raise BundleError(f"{name} is no bundle: {HEAD} does not come first", AGAIN)
    head = head_of(b"".join(content(file, first)), name)
    if head.architecture != architecture:
        why = f"{name} was made for {head.architecture}, this machine is {architecture}"
        raise BundleError(why, f"where there is a network: envcheck bundle --arch {architecture}")
    members = [first, *walk]
    raw, declared = _manifest(file, members, name)
    members = [Member(m.name, m.size, m.offset, declared[m.name][1]) for m in members[:-1]]
    by_name = {m.name: m for m in members}
    recipe, lock = _recipe(file, by_name, name), _lock(file, by_name, name)
    _agree(head, recipe, lock, by_name, name)
    image = image_layout.find(file, by_name, name) if head.image else None
    if image and image.architecture != head.architecture:
        raise BundleError(f"{name}: the image in it is for {image.architecture}, not {head.architecture}", AGAIN)
    if image and lock.image and image.id != lock.image.id:
        raise BundleError(f"{name}: the image in it is {image.id}, its lock says {lock.image.id[:80]!a}", AGAIN)
    digest = hashlib.sha256(raw).hexdigest()
    return Bundle(path, head, by_name, recipe, lock, image, digest, _identity(file))


def _manifest(file: BinaryIO, members: list[Member], name: str) -> tuple[bytes, dict[str, tuple[int, str]]]:
    """The manifest's text, and what it declares: the very members that are there, in order, of their sizes."""
    last = members[-1]
    if last.name != MANIFEST or last.size > MANIFEST_LIMIT:
        raise BundleError(f"{name} is cut off or damaged: it does not end with its manifest", AGAIN)
    raw = b"".join(content(file, last))
    declared = manifest_of(raw, name)
    for member in members[:-1]:
        size = declared.get(member.name, (None, ""))[0]
        if size != member.size:
            said = "does not know it" if size is None else f"says {size} bytes"
            raise BundleError(f"{name}: {member.name} has {member.size} bytes, its manifest {said}", AGAIN)
    if missing := sorted(set(declared) - {m.name for m in members}):
        raise BundleError(f"{name}: {missing[0][:100]!a} of its manifest is missing", AGAIN)
    return raw, declared


def _text(file: BinaryIO, members: Mapping[str, Member], key: str, name: str) -> str:
    if key not in members or members[key].size > SMALL_LIMIT:
        raise BundleError(f"{name} has no {key}, or one beyond all bounds", AGAIN)
    try:
        return b"".join(content(file, members[key])).decode("utf-8")
    except UnicodeDecodeError:
        raise BundleError(f"{name}: {key} in it is no text", AGAIN) from None


def _recipe(file: BinaryIO, members: Mapping[str, Member], name: str) -> Recipe:
    from installers.recipes.recipe_rules import check

    try:
        recipe = recipes_file.parse(_text(file, members, RECIPE, name), f"{name}: {RECIPE}")
        check(recipe)
    except BundleError:
        raise
    except EnvcheckError as err:
        raise BundleError(err.message, AGAIN) from None
    return recipe


def _lock(file: BinaryIO, members: Mapping[str, Member], name: str) -> Lock:
    try:
        return lockfile.parse(_text(file, members, LOCK, name), f"{name}: {LOCK}")
    except BundleError:
        raise
    except EnvcheckError as err:
        raise BundleError(err.message, AGAIN) from None


def _agree(head: Head, recipe: Recipe, lock: Lock, members: Mapping[str, Member], name: str) -> None:
    """Head, recipe, lock and wheels speak of the same things."""
    for what, one, other in (
        ("recipe", head.recipe, recipe.name),
        ("recipe", lock.recipe, recipe.name),
        ("recipe's content", lock.recipe_sha256, lockfile.recipe_hash(recipe)),
        ("architecture", lock.architecture, head.architecture),
        ("image", str(head.image), str(INDEX in members)),
        ("image", str(recipe.image is not None), str(lock.image is not None)),
        ("image", str(head.image), str(recipe.image is not None)),
    ):
        if one != other:
            raise BundleError(f"{name} contradicts itself about its {what}: {one[:80]!a} and {other[:80]!a}", AGAIN)
    for checkout in recipe.checkouts:
        if f"checkouts/{bundle_name(checkout)}" not in members:
            raise BundleError(f"{name} has no clone of {checkout.url}", AGAIN)
    wanted = {f"wheels/{wheel.file}": wheel.sha256 for wheel in lock.wheels}
    there = {m.name: m.sha256 for m in members.values() if m.name.startswith("wheels/")}
    wanted |= {f"builds/{built.sha256}": built.sha256 for built in lock.builds}
    there |= {m.name: m.sha256 for m in members.values() if m.name.startswith("builds/")}
    for file in sorted({*wanted, *there}):
        if wanted.get(file) != there.get(file):
            raise BundleError(f"{name}: {file} is not the one of its lock", AGAIN)


def _read_all(file: BinaryIO, found: Bundle, report: Report) -> None:
    """Every member's sha256; progress in bytes of the whole."""
    total, done = sum(m.size for m in found.members.values()), 0
    for member in found.members.values():
        digest = hashlib.sha256()
        for chunk in content(file, member):
            digest.update(chunk)
            done += len(chunk)
            report(Event("bytes", f"checking {found.path.name}", done, total))
        if digest.hexdigest() != member.sha256:
            raise BundleError(f"{found.path.name} is damaged: {member.name} is not what its manifest says", AGAIN)
        if member.name.startswith("image/blobs/") and not member.name.endswith(member.sha256):
            raise BundleError(f"{found.path.name}: {member.name} has another sha256 than its name", AGAIN)
        if member.name.endswith(".whl"):
            _wheel(file, member, found.path.name)


def _layers(file: BinaryIO, found: Bundle, image: BundledImage) -> None:
    """Packed layers unpack to what the configuration says, and to no more than a thousandfold; plain ones are it."""
    for layer, diff_id in zip(image.layers, image.diff_ids, strict=True):
        if not next(content(file, layer), b"").startswith(image_layout.GZIP):
            said = f"sha256:{layer.sha256}"
        else:
            said = _unpacked(file, layer, found.path.name)
        if said != diff_id:
            raise BundleError(f"{found.path.name}: {layer.name} is no layer of its image", AGAIN)


def _unpacked(file: BinaryIO, layer: Member, name: str) -> str:
    plain = Unpacked(limit=layer.size * RATIO_LIMIT + SPARE_BYTES)
    try:
        for chunk in content(file, layer):
            plain.update(chunk)
        return plain.diff_id(layer.sha256)
    except (zlib.error, ValueError) as err:
        raise BundleError(f"{name}: {layer.name} is no honest layer: {err}", AGAIN) from None


def _wheel(file: BinaryIO, member: Member, name: str) -> None:
    """A zip whose files stay below its folder and do not swell beyond measure.  (zipfile unpacks what is declared and
    no more, so that the declared sizes are a bound.)"""
    try:
        with zipfile.ZipFile(tar.open_member(file, member)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, tarfile.TarError, ValueError, NotImplementedError, EOFError):
        raise BundleError(f"{name}: {member.name} is no wheel", AGAIN) from None
    size = sum(entry.file_size for entry in entries)
    if size > WHEEL_LIMIT or size > RATIO_LIMIT * member.size + SPARE_BYTES:
        raise BundleError(f"{name}: {member.name} would unpack to {size} bytes", AGAIN)
    for entry in entries:
        if entry.filename.startswith("/") or ".." in entry.filename.split("/") or "\\" in entry.filename:
            raise BundleError(f"{name}: {member.name} holds {entry.filename[:80]!a}, which leads out of it", AGAIN)


def unpack(found: Bundle) -> UnpackedBundle:
    """All but the image, below ENVCHECK_HOME; a second time nothing is left to do.  StepError where there is no room.

    Every file is compared with its sha256 once more on the way: the bundle may have changed since it was checked.
    """
    folder = found.folder
    if _remembered(found) != found.identity:
        wanted = [m for m in found.members.values() if not m.name.startswith("image/") and m.name != FILE]
        folder.parent.mkdir(parents=True, exist_ok=True)
        size, free = sum(m.size for m in wanted), shutil.disk_usage(folder.parent).free
        if size + SPARE_BYTES > free:
            why = f"{gib(free)} are free at {folder.parent}, {gib(size + SPARE_BYTES)} are needed"
            raise StepError(why, "make room, or set ENVCHECK_HOME")
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            _take_out(found, wanted, fresh)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
        except OSError as err:
            raise StepError(f"cannot write {folder}: {(err.strerror or str(err)).lower()}", "make room") from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    recipe = recipes_file.load(folder / RECIPE)
    return UnpackedBundle(folder, recipe, found.lock, found.image)


def _take_out(found: Bundle, wanted: list[Member], fresh: Path) -> None:
    for name in ("wheels", "tools", "builds", "checkouts"):
        (fresh / name).mkdir()
    with _opened(found.path) as file:
        for member in wanted:
            digest = hashlib.sha256()
            with (fresh / member.name).open("xb") as target:
                for chunk in content(file, member):
                    digest.update(chunk)
                    target.write(chunk)
            if digest.hexdigest() != member.sha256:
                raise BundleError(f"{found.path.name} was changed while it was read: {member.name}", AGAIN)
        (fresh / ".whole").write_text(" ".join(map(str, found.identity)), "ascii")


def image_stream(found: Bundle, report: Report = silent) -> Iterator[bytes]:
    """What the engine's load takes; nothing of it is written by us."""
    assert found.image
    image, what = found.image, f"loading {found.image.reference}"
    total = sum(layer.size for layer in image.layers)
    with _opened(found.path) as file:
        if _identity(file) != found.identity:
            raise BundleError(f"{found.path.name} was changed since it was checked", "repeat the command")
        yield from image_layout.load_stream(file, image, lambda done: report(Event("bytes", what, done, total)))
