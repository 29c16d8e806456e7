"""Read a bundle on the target machine: verify all of it before changing anything, then unpack it.

found = archive_reader.verify_bundle(path, architecture, report)   # raises BundleError; writes nothing
parts = archive_reader.unpack_bundle(found)                        # recipe, lock, wheels, clones below ENVCHECK_HOME
for chunk in archive_reader.stream_image(found, report): ...       # input of the engine's `load`
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
from envcheck.core.errors import EnvcheckError, StepError, describe_os_error
from envcheck.core.messages import _
from envcheck.core.units import format_gib
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
    BundleHead,
    BundleMember,
    UnreadableBundleError,
    parse_head,
    parse_manifest,
)  # fmt: skip
from installers.bundle.image_layout import BundledImage, OversizedLayerError, UnpackedDigest
from installers.bundle.tar import read_member
from installers.locks import lockfile
from installers.locks.lockfile import Lock
from installers.recipes import loader
from installers.recipes.recipe import Recipe
from installers.state.progress import ProgressEvent, Report

# Larger wheels are rejected: paddlepaddle-gpu with its libraries unpacks to about 4 GB, at a ratio of 2 to 3.
WHEEL_LIMIT, RATIO_LIMIT = 64 << 30, 200
SPARE_BYTES = 256 << 20


def ignore_event(event: ProgressEvent) -> None:
    """Discard the progress event."""


@dataclass(frozen=True)
class Bundle:
    """A verified bundle; `identity` detects that the file was replaced since."""

    path: Path
    head: BundleHead
    members: Mapping[str, BundleMember]
    recipe: Recipe
    lock: Lock
    image: BundledImage | None
    manifest_sha256: str
    identity: tuple[int, ...]

    @property
    def folder(self) -> Path:
        """Where the bundle is unpacked."""
        return paths.envcheck_home() / "bundles" / self.manifest_sha256[:32]


@dataclass(frozen=True)
class UnpackedBundle:
    """The unpacked files; `wheels_folder` is for pip's --find-links, `checkouts_folder` has NAME.bundle for git."""

    folder: Path
    recipe: Recipe
    lock: Lock
    image: BundledImage | None

    @property
    def wheels_folder(self) -> Path:
        """Wheels of the recipe's packages."""
        return self.folder / "wheels"

    @property
    def checkouts_folder(self) -> Path:
        """Git bundles of the recipe's clones."""
        return self.folder / "checkouts"

    @property
    def tools_folder(self) -> Path:
        """Wheels of build dependencies."""
        return self.folder / "tools"

    @property
    def builds_folder(self) -> Path:
        """Build results, each named by its SHA-256."""
        return self.folder / "builds"


def verify_bundle(path: Path, architecture: str, report: Report = ignore_event) -> Bundle:
    """Return the bundle after verifying every byte.  BundleError if it cannot be used here.

    Cheap checks come first: another schema or architecture, or a truncated file, is reported before gigabytes are
    read.
    """
    with _open_bundle(path) as file:
        found = _read_descriptions(file, path, architecture)
        if not (found.folder / ".whole").exists() or _read_identity(found) != _file_identity(file):
            _check_members(file, found, report)
            if found.image:
                _check_layers(file, found, found.image)
    return found


@contextlib.contextmanager
def _open_bundle(path: Path) -> Iterator[BinaryIO]:
    try:
        if not path.is_file():
            raise UnreadableBundleError(
                _("{path} is not a file", path=path), _("pass the file that `envcheck bundle` wrote")
            )
        with path.open("rb", buffering=0) as file:
            yield file
    except OSError as err:
        raise UnreadableBundleError(
            _("cannot read {path}: {reason}", path=path, reason=describe_os_error(err)), AGAIN
        ) from None


def _file_identity(file: BinaryIO) -> tuple[int, ...]:
    told = os.fstat(file.fileno())
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns


def _read_identity(bundle: Bundle) -> tuple[int, ...]:
    """Return the identity of the file that was read completely when its parts were unpacked."""
    try:
        return tuple(int(word) for word in (bundle.folder / ".whole").read_text("ascii")[:200].split())
    except (OSError, ValueError):
        return ()


def _read_descriptions(file: BinaryIO, path: Path, architecture: str) -> Bundle:
    """Read the headers and descriptions."""
    name = path.name
    walk = tar.list_members(file, name)
    first = next(walk, None)
    if first is None or first.name != HEAD or first.size > SMALL_LIMIT:
        raise UnreadableBundleError(
            _("{name} is not an envcheck bundle: its first entry is not {head}", name=name, head=HEAD), AGAIN
        )
    head = parse_head(b"".join(read_member(file, first)), name)
    if head.architecture != architecture:
        why = _(
            "{name} was built for {architecture}; this machine is {here}",
            name=name,
            architecture=head.architecture,
            here=architecture,
        )
        raise BundleError(
            why,
            _(
                "run `envcheck bundle --arch {architecture}` on a machine with network access",
                architecture=architecture,
            ),
        )
    members = [first, *walk]
    raw, declared = _read_manifest(file, members, name)
    members = [BundleMember(m.name, m.size, m.offset, declared[m.name][1]) for m in members[:-1]]
    by_name = {m.name: m for m in members}
    recipe, lock = _read_recipe(file, by_name, name), _read_lock(file, by_name, name)
    _check_consistency(head, recipe, lock, by_name, name)
    image = image_layout.read_image(file, by_name, name) if head.image else None
    if image and image.architecture != head.architecture:
        raise BundleError(
            _(
                "{name}: the image inside is for {architecture}, expected {wanted}",
                name=name,
                architecture=image.architecture,
                wanted=head.architecture,
            ),
            AGAIN,
        )
    if image and lock.image and image.id != lock.image.id:
        raise BundleError(
            _(
                "{name}: the image inside is {id}, but its lock file lists {locked_id!a}",
                name=name,
                id=image.id,
                locked_id=lock.image.id[:80],
            ),
            AGAIN,
        )
    digest = hashlib.sha256(raw).hexdigest()
    return Bundle(path, head, by_name, recipe, lock, image, digest, _file_identity(file))


def _read_manifest(file: BinaryIO, members: list[BundleMember], name: str) -> tuple[bytes, dict[str, tuple[int, str]]]:
    """Return the manifest's text and its entries, which must equal the actual members, in order and size."""
    last = members[-1]
    if last.name != MANIFEST or last.size > MANIFEST_LIMIT:
        raise BundleError(_("{name} is truncated or corrupt: the manifest at its end is missing", name=name), AGAIN)
    raw = b"".join(read_member(file, last))
    declared = parse_manifest(raw, name)
    for member in members[:-1]:
        size = declared.get(member.name, (None, ""))[0]
        if size != member.size:
            why = (
                _("{bundle}: {file} is not listed in the manifest", bundle=name, file=member.name)
                if size is None
                else _(
                    "{bundle}: {file} has {size} bytes; the manifest lists {listed} bytes",
                    bundle=name,
                    file=member.name,
                    size=member.size,
                    listed=size,
                )
            )
            raise BundleError(why, AGAIN)
    if missing := sorted(set(declared) - {m.name for m in members}):
        raise BundleError(
            _("{name}: {missing!a} is listed in the manifest but missing", name=name, missing=missing[0][:100]), AGAIN
        )
    return raw, declared


def _read_text(file: BinaryIO, members: Mapping[str, BundleMember], key: str, name: str) -> str:
    if key not in members or members[key].size > SMALL_LIMIT:
        raise BundleError(_("{name}: {key} is missing or too large", name=name, key=key), AGAIN)
    try:
        return b"".join(read_member(file, members[key])).decode("utf-8")
    except UnicodeDecodeError:
        raise BundleError(_("{name}: {key} is not valid text", name=name, key=key), AGAIN) from None


def _read_recipe(file: BinaryIO, members: Mapping[str, BundleMember], name: str) -> Recipe:
    from installers.recipes.validation import check_recipe

    try:
        recipe = loader.parse_recipe(_read_text(file, members, RECIPE, name), f"{name}: {RECIPE}")
        check_recipe(recipe)
    except BundleError:
        raise
    except EnvcheckError as err:
        raise BundleError(err.message, AGAIN) from None
    return recipe


def _read_lock(file: BinaryIO, members: Mapping[str, BundleMember], name: str) -> Lock:
    try:
        return lockfile.parse_lock(_read_text(file, members, LOCK, name), f"{name}: {LOCK}")
    except BundleError:
        raise
    except EnvcheckError as err:
        raise BundleError(err.message, AGAIN) from None


def _check_consistency(
    head: BundleHead, recipe: Recipe, lock: Lock, members: Mapping[str, BundleMember], name: str
) -> None:
    """Require head, recipe, lock and wheels to agree."""
    for what, one, other in (
        (_("recipe"), head.recipe, recipe.name),
        (_("recipe"), lock.recipe, recipe.name),
        (_("content of the recipe"), lock.recipe_sha256, lockfile.hash_recipe(recipe)),
        (_("architecture"), lock.architecture, head.architecture),
        (_("image"), str(head.image), str(INDEX in members)),
        (_("image"), str(recipe.image is not None), str(lock.image is not None)),
        (_("image"), str(head.image), str(recipe.image is not None)),
    ):
        if one != other:
            raise BundleError(
                _(
                    "{name} is inconsistent: two values for {what}: {one!a} and {other!a}",
                    name=name,
                    what=what,
                    one=one[:80],
                    other=other[:80],
                ),
                AGAIN,
            )
    for checkout in recipe.checkouts:
        if f"checkouts/{bundle_name(checkout)}" not in members:
            raise BundleError(_("{name} does not contain a clone of {url}", name=name, url=checkout.url), AGAIN)
    wanted = {f"wheels/{wheel.file}": wheel.sha256 for wheel in lock.wheels}
    there = {m.name: m.sha256 for m in members.values() if m.name.startswith("wheels/")}
    wanted |= {f"builds/{built.sha256}": built.sha256 for built in lock.builds}
    there |= {m.name: m.sha256 for m in members.values() if m.name.startswith("builds/")}
    for file in sorted({*wanted, *there}):
        if wanted.get(file) != there.get(file):
            raise BundleError(_("{name}: {file} does not match the lock file", name=name, file=file), AGAIN)


def _check_members(file: BinaryIO, bundle: Bundle, report: Report) -> None:
    """Verify every member's SHA-256; report progress in bytes of the whole."""
    total, done = sum(m.size for m in bundle.members.values()), 0
    for member in bundle.members.values():
        digest = hashlib.sha256()
        for chunk in read_member(file, member):
            digest.update(chunk)
            done += len(chunk)
            report(ProgressEvent("bytes", _("verifying {name}", name=bundle.path.name), done, total))
        if digest.hexdigest() != member.sha256:
            raise BundleError(
                _(
                    "{bundle} is corrupt: {file} does not match its manifest",
                    bundle=bundle.path.name,
                    file=member.name,
                ),
                AGAIN,
            )
        if member.name.startswith("image/blobs/") and not member.name.endswith(member.sha256):
            raise BundleError(
                _("{bundle}: the SHA-256 of {file} does not match its name", bundle=bundle.path.name, file=member.name),
                AGAIN,
            )
        if member.name.endswith(".whl"):
            _check_wheel(file, member, bundle.path.name)


def _check_layers(file: BinaryIO, bundle: Bundle, image: BundledImage) -> None:
    """Require layers to unpack to what the image configuration lists, at a ratio of up to 1000."""
    for layer, diff_id in zip(image.layers, image.diff_ids, strict=True):
        if not next(read_member(file, layer), b"").startswith(image_layout.GZIP):
            said = f"sha256:{layer.sha256}"
        else:
            said = _unpacked_diff_id(file, layer, bundle.path.name)
        if said != diff_id:
            raise BundleError(
                _("{bundle}: {file} is not a layer of the image", bundle=bundle.path.name, file=layer.name), AGAIN
            )


def _unpacked_diff_id(file: BinaryIO, layer: BundleMember, name: str) -> str:
    plain = UnpackedDigest(limit=layer.size * RATIO_LIMIT + SPARE_BYTES)
    try:
        for chunk in read_member(file, layer):
            plain.update(chunk)
        return plain.diff_id(layer.sha256)
    except (zlib.error, OversizedLayerError) as err:
        reason = err.why if isinstance(err, OversizedLayerError) else str(err)
        raise BundleError(
            _("{bundle}: {file} is not a valid image layer: {reason}", bundle=name, file=layer.name, reason=reason),
            AGAIN,
        ) from None


def _check_wheel(file: BinaryIO, member: BundleMember, name: str) -> None:
    """Require a zip whose files stay inside its folder and below the size limits.

    The declared sizes are a bound because zipfile unpacks no more than is declared.
    """
    try:
        with zipfile.ZipFile(tar.open_member(file, member)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, tarfile.TarError, ValueError, NotImplementedError, EOFError):
        raise BundleError(_("{bundle}: {file} is not a wheel", bundle=name, file=member.name), AGAIN) from None
    size = sum(entry.file_size for entry in entries)
    if size > WHEEL_LIMIT or size > RATIO_LIMIT * member.size + SPARE_BYTES:
        raise BundleError(
            _(
                "{bundle}: {file} would unpack to {size} bytes, above the limit",
                bundle=name,
                file=member.name,
                size=size,
            ),
            AGAIN,
        )
    for entry in entries:
        if entry.filename.startswith("/") or ".." in entry.filename.split("/") or "\\" in entry.filename:
            raise BundleError(
                _(
                    "{bundle}: {file} contains {entry!a}, which points outside the archive",
                    bundle=name,
                    file=member.name,
                    entry=entry.filename[:80],
                ),
                AGAIN,
            )


def unpack_bundle(bundle: Bundle) -> UnpackedBundle:
    """Unpack everything except the image below ENVCHECK_HOME; does nothing if that is done.  StepError without space.

    Every file's SHA-256 is compared again: the bundle may have changed since the verification.
    """
    folder = bundle.folder
    if _read_identity(bundle) != bundle.identity:
        wanted = [m for m in bundle.members.values() if not m.name.startswith("image/") and m.name != FILE]
        folder.parent.mkdir(parents=True, exist_ok=True)
        size, free = sum(m.size for m in wanted), shutil.disk_usage(folder.parent).free
        if size + SPARE_BYTES > free:
            why = _(
                "{size} needed at {parent}; {free} free",
                free=format_gib(free),
                parent=folder.parent,
                size=format_gib(size + SPARE_BYTES),
            )
            raise StepError(why, _("free disk space, or set ENVCHECK_HOME"))
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            _extract_members(bundle, wanted, fresh)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
        except OSError as err:
            raise StepError(
                _("cannot write to {folder}: {reason}", folder=folder, reason=describe_os_error(err)),
                _("free disk space"),
            ) from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    recipe = loader.load_recipe(folder / RECIPE)
    return UnpackedBundle(folder, recipe, bundle.lock, bundle.image)


def _extract_members(bundle: Bundle, wanted: list[BundleMember], fresh: Path) -> None:
    for name in ("wheels", "tools", "builds", "checkouts"):
        (fresh / name).mkdir()
    with _open_bundle(bundle.path) as file:
        for member in wanted:
            digest = hashlib.sha256()
            with (fresh / member.name).open("xb") as target:
                for chunk in read_member(file, member):
                    digest.update(chunk)
                    target.write(chunk)
            if digest.hexdigest() != member.sha256:
                raise BundleError(
                    _("{bundle} changed while it was being read: {file}", bundle=bundle.path.name, file=member.name),
                    AGAIN,
                )
        (fresh / ".whole").write_text(" ".join(map(str, bundle.identity)), "ascii")


def stream_image(bundle: Bundle, report: Report = ignore_event) -> Iterator[bytes]:
    """Yield the input of the engine's `load`; nothing is written to disk."""
    assert bundle.image
    image, what = bundle.image, _("loading {reference}", reference=bundle.image.reference)
    total = sum(layer.size for layer in image.layers)
    with _open_bundle(bundle.path) as file:
        if _file_identity(file) != bundle.identity:
            raise BundleError(
                _("{name} changed after it was verified", name=bundle.path.name), _("run the command again")
            )
        yield from image_layout.stream_for_load(
            file, image, lambda done: report(ProgressEvent("bytes", what, done, total))
        )
