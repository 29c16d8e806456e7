"""Create a bundle: plan its contents, then stream the file; the image is the one in this machine's engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from typing import Any, Protocol

from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.units import MIB, format_mib
from envcheck.core.version import __version__
from envcheck.payload import pyz
from envcheck.payload.unpack import FILE
from envcheck.settings.site_access import NO_SITE, SiteAccess, show_values
from installers.bundle import contents, image_layout, registry_layers, wheel_builder
from installers.bundle.contents import WheelPlatform
from installers.bundle.format import HEAD, LOCK, RECIPE, SCHEMA, BundleHead, render_head
from installers.bundle.registry_layers import RegistryImage
from installers.bundle.tar import BundleWriter
from installers.bundle.wheel_builder import WheelBuilder
from installers.images import local_image
from installers.images.docker_engine import DockerEngine
from installers.images.reference import list_candidates
from installers.locks import lockfile
from installers.locks.lockfile import Lock, LockedBuild, LockedCommit, LockedImage, LockedWheel
from installers.plan.package_sizes import SIZES_MIB, SMALL_MIB
from installers.recipes.loader import read_recipe_text
from installers.recipes.recipe import Recipe, group_by_index
from installers.state.progress import ProgressEvent, Report

EXPORT_S = 3600.0  # Docker 20.10 copies all layers to its disk before it sends the first byte
OWN_MIB = 4  # envcheck.pyz; 3.8 MiB, measured


@dataclass(frozen=True)
class EngineImage:
    """An image in the engine; `size_bytes` is its unpacked size, `distant` the same image in its registry."""

    reference: str
    digest: str
    architecture: str
    size_bytes: int
    distant: RegistryImage | None = None

    @property
    def bundle_part(self) -> BundlePart:
        """The image's line in the plan: from the registry if possible, else from the engine."""
        if self.distant:
            size = self.distant.found.compressed_bytes
            return BundlePart(
                _("image {reference}", reference=self.reference),
                _("registry, in its compressed form"),
                round(size / MIB),
            )
        return BundlePart(
            _("image {reference}", reference=self.reference),
            _("this machine's container engine"),
            round(self.size_bytes / MIB),
        )


class ImageSource(Protocol):
    """Where images come from: EngineImageSource, or a substitute in tests."""

    def find_image(self, references: Iterable[str]) -> EngineImage | None:
        """Return the first of these images that is available, None if none is."""

    def open_export(self, reference: str) -> AbstractContextManager[Iterable[bytes]]:
        """Open the image as the tar stream of `docker save`."""

    def start_builder(
        self, reference: str, recipe: Recipe, folder: Path, report: Report, site: SiteAccess
    ) -> AbstractContextManager[WheelBuilder]:
        """Start a temporary container of the image."""


@dataclass(frozen=True)
class BundlePart:
    """One line of the plan."""

    description: Message
    source: Message
    size_mib: int


@dataclass(frozen=True)
class BundlePlan:
    """The contents of a bundle: recipe, target platform, path, parts and image, and how this site
    reaches the outside."""

    recipe: Recipe
    aim: WheelPlatform
    path: Path
    parts: tuple[BundlePart, ...]
    image: EngineImage | None = None
    site: SiteAccess = NO_SITE

    @property
    def size_mib(self) -> int:
        """Estimated size of the bundle in MiB."""
        return sum(part.size_mib for part in self.parts)


@dataclass(frozen=True)
class BundleWishes:
    """What the user chose for the wheels: Python and newest platform tag, "" for the default; and the site."""

    python: str = ""
    newest: str = ""
    site: SiteAccess = NO_SITE


def check_request(recipe: Recipe, wishes: BundleWishes) -> None:
    """Raise UsageError for what no bundle can hold; it has one image, and wheels and builds for the Python of that."""
    if recipe.image and (wishes.python or wishes.newest):
        raise UsageError(
            _("--python and --platform are for recipes without an image; {recipe} has one", recipe=recipe.name),
            _("remove the option: the image has its own Python"),
        )
    if recipe.image and recipe.image.roles:
        raise UsageError(
            _("{recipe} has an image for each node role; a bundle holds one image", recipe=recipe.name),
            _("copy the images with `docker save`, or set up a registry: [site] registries in envcheck.toml"),
        )


def plan_bundle(
    recipe: Recipe,
    architecture: str,
    path: Path,
    source: ImageSource | None,
    wishes: BundleWishes = BundleWishes(),
) -> BundlePlan:
    """Return the plan.  EnvcheckError if a part is unavailable."""
    site = wishes.site
    check_request(recipe, wishes)
    if recipe.hardware.architectures and architecture not in recipe.hardware.architectures:
        raise UsageError(
            _("recipe {recipe} does not support {architecture}", recipe=recipe.name, architecture=architecture),
            _("pass --arch {architecture}", architecture=recipe.hardware.architectures[0]),
        )
    aim, image = contents.choose_platform(recipe, architecture, wishes.python, wishes.newest), None
    inside = _builds_in_image(recipe, architecture)
    parts = [BundlePart(_("envcheck {version} as {file}", version=__version__, file=FILE), _("this machine"), OWN_MIB)]
    if recipe.image:
        image = _find_image(recipe, architecture, source, site.registries)
        parts.append(image.bundle_part)
    for index, packages in group_by_index(recipe.packages):
        names = join(", ", (p.name + p.specifier for p in packages))
        size = sum(SIZES_MIB.get(p.name, SMALL_MIB) for p in packages)
        parts.append(
            BundlePart(
                _(
                    "wheels for {aim} on {architecture}: {names}",
                    aim=_describe_python(aim, inside),
                    architecture=architecture,
                    names=names,
                ),
                verbatim(index) if index else _("configured package index"),
                size,
            )
        )
    parts += [BundlePart(_("clone at {ref}", ref=c.ref[:12]), verbatim(c.url), 100) for c in recipe.checkouts]
    parts += [
        BundlePart(_("{name}, built from source", name=b.name), _("build cache of this machine"), 1024)
        for b in recipe.builds
    ]
    return BundlePlan(recipe, aim, path.absolute(), tuple(parts), image, site)


def _builds_in_image(recipe: Recipe, architecture: str) -> bool:
    """Return whether the image runs on this machine and provides the Python."""
    wanted = recipe.packages or recipe.builds or any(each.editable for each in recipe.checkouts)
    return bool(recipe.image and wanted) and architecture == machine()


def _describe_python(aim: WheelPlatform, inside: bool) -> Message:
    return _("the image's Python") if inside else _("Python {python}", python=aim.python)


def _find_image(
    recipe: Recipe, architecture: str, source: ImageSource | None, registries: Sequence[str]
) -> EngineImage:
    assert recipe.image
    reference = recipe.image.references.get(architecture)
    if reference is None:
        raise UsageError(
            _("recipe {recipe} has no image for {architecture}", recipe=recipe.name, architecture=architecture),
            _("pass --arch {architecture}", architecture=next(iter(recipe.image.references))),
        )
    mirrored = list_candidates(recipe.image, architecture, registries) if registries else ()
    names = (reference, *recipe.image.alternates.get(architecture, ()), *map(str, mirrored))
    found = source.find_image(names) if source else None
    platform = f"--platform linux/{image_layout.GO_NAMES.get(architecture, architecture)}"
    if found is None:
        raise EnvcheckError(
            _("image {reference} not found on this machine", reference=reference),
            verbatim(f"docker pull {platform} {reference}"),
        )
    if found.architecture != architecture:
        why = _(
            "image {reference} on this machine is for {architecture}, expected {wanted}",
            reference=found.reference,
            architecture=found.architecture,
            wanted=architecture,
        )
        raise EnvcheckError(why, verbatim(f"docker pull {platform} {reference}"))
    return found


def make_bundle(asked: BundlePlan, source: ImageSource | None, report: Report) -> Lock:
    """Write the bundle, complete or not at all; return its lock."""
    parent = asked.path.parent
    free = shutil.disk_usage(parent).free
    if asked.size_mib * MIB > free:
        why = _(
            "about {size_mib} needed at {parent}; {free} free",
            free=format_mib(free / MIB),
            parent=parent,
            size_mib=format_mib(asked.size_mib),
        )
        raise EnvcheckError(why, _("free disk space, or choose another path with -o"))
    with BundleWriter(asked.path) as writer, _scratch_folder(asked.path) as scratch:
        return _fill_bundle(asked, source, report, writer, scratch)


@contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside the bundle for collected files.

    Its name is fixed, so that the files of a killed run are removed; only the process that writes the bundle uses it.
    """
    folder = path.with_name(f".{path.name}.parts")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill_bundle(
    asked: BundlePlan, source: ImageSource | None, report: Report, writer: BundleWriter, scratch: Path
) -> Lock:
    recipe, aim = asked.recipe, asked.aim
    report(ProgressEvent("begin", _("write {file}", file=FILE)))
    payload = pyz.build_payload(frozenset({aim.architecture} & set(pyz.MACHINES)))
    commits: tuple[LockedCommit, ...] = ()
    if recipe.checkouts:
        report(ProgressEvent("begin", _("clone {urls}", urls=join(", ", (c.url for c in recipe.checkouts)))))
        commits = contents.bundle_checkouts(recipe.checkouts, scratch)
    collecting = ngettext(
        "collect {count} package and its dependencies",
        "collect {count} packages and their dependencies",
        len(recipe.packages),
    )
    report(ProgressEvent("begin", collecting))
    wheels, made, python = _collect_wheels(asked, source, report, scratch, commits)
    head = BundleHead(
        SCHEMA, __version__, recipe.name, recipe.device, aim.architecture, python, recipe.image is not None
    )
    writer.add_member(HEAD, [render_head(head)])
    writer.add_member(FILE, [payload.data])
    writer.add_member(RECIPE, [read_recipe_text(Path(recipe.file)).encode()])
    for kind in ("wheels", "tools", "builds", "checkouts"):
        for path in sorted((scratch / kind).glob("*")):
            writer.add_file(f"{kind}/{path.name}", path)
            path.unlink()
    lock = Lock(lockfile.SCHEMA, __version__, recipe.name, lockfile.hash_recipe(recipe), aim.architecture, python,
                _add_image(asked, source, report, writer), None, wheels, commits, (), made,
                show_values(asked.site))  # fmt: skip
    writer.add_member(LOCK, [lockfile.render_lock(lock).encode()])
    return lock


def _collect_wheels(
    asked: BundlePlan, source: ImageSource | None, report: Report, scratch: Path, commits: tuple[LockedCommit, ...]
) -> tuple[tuple[LockedWheel, ...], tuple[LockedBuild, ...], str]:
    """Collect wheels, build results, and the Python version that they are for.

    For a platform that this machine cannot run, wheels are only downloaded.
    """
    recipe, aim = asked.recipe, asked.aim
    bundles = {c.directory: scratch / "checkouts" / contents.bundle_name(c) for c in recipe.checkouts}
    if _builds_in_image(recipe, aim.architecture) and asked.image and source:
        place = source.start_builder(asked.image.reference, recipe, scratch, report, asked.site)
    elif aim.is_this_python and not recipe.image:
        place = wheel_builder.start_venv_builder(scratch, report, asked.site)
    else:
        if recipe.builds:
            why = _(
                "recipe {recipe} builds {builds} from source; this machine cannot build for Python {python} on "
                "{architecture}",
                recipe=recipe.name,
                builds=join(", ", (build.name for build in recipe.builds)),
                python=aim.python,
                architecture=aim.architecture,
            )
            raise EnvcheckError(why, _("run `envcheck bundle` on a machine of the same kind as the target"))
        return contents.collect_wheels(recipe, aim, scratch, report, bundles, asked.site), (), aim.python
    try:
        with place as builder:
            made = wheel_builder.build_wheels(builder, recipe, commits, bundles)
            return tuple(builder.wheels.values()), made, builder.python_minor
    except StepError as err:
        raise contents.keep_pip_log(err, scratch / "builder") from None


def _add_image(
    asked: BundlePlan, source: ImageSource | None, report: Report, writer: BundleWriter
) -> LockedImage | None:
    if asked.image is None or source is None:
        return None
    report(ProgressEvent("begin", _("copy the image {reference}", reference=asked.image.reference)))
    if (far := asked.image.distant) and (
        identity := registry_layers.pack_from_registry(writer, far, asked.image.reference, report)
    ):
        return LockedImage(asked.image.reference, asked.image.digest, identity)
    with source.open_export(asked.image.reference) as chunks:
        told = _report_progress(chunks, report, asked.image)
        identity = image_layout.pack_export(writer, told, asked.image.reference, asked.aim.architecture)
    return LockedImage(asked.image.reference, asked.image.digest, identity)


def _report_progress(chunks: Iterable[bytes], report: Report, image: EngineImage) -> Iterable[bytes]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        report(ProgressEvent("bytes", verbatim(image.reference), min(done, image.size_bytes), image.size_bytes))


class EngineImageSource:
    """Images of a container engine; `client` is from installers.images.docker_engine.open_client.

    With `engine`, which lists registries, an image is also searched in its registry.
    """

    def __init__(self, client: Any, engine: DockerEngine | None = None) -> None:
        self._client, self._engine = client, engine

    def find_image(self, references: Iterable[str]) -> EngineImage | None:
        """Return the first of these images in the engine, None if it has none.  StepError if the engine fails."""
        import docker.errors

        for reference in references:
            try:
                inspected = self._client.api.inspect_image(reference)
            except docker.errors.ImageNotFound:
                continue
            except docker.errors.APIError as err:
                raise StepError(
                    _(
                        "the container engine returned no information about {reference}: {reason}",
                        reference=reference,
                        reason=str(err)[:250],
                    ),
                    _("check the engine's log"),
                ) from None
            digests = [d.rpartition("@")[2] for d in inspected.get("RepoDigests") or ()]
            machine = {go: ours for ours, go in image_layout.GO_NAMES.items()}.get(inspected.get("Architecture"), "")
            far = self._find_at_registry(inspected, reference, machine)
            return EngineImage(reference, digests[0] if digests else "", machine, int(inspected.get("Size") or 0), far)
        return None

    def _find_at_registry(self, inspected: Any, reference: str, machine: str) -> RegistryImage | None:
        if self._engine is None:
            return None
        return registry_layers.find_registry_image(
            inspected, reference, machine, self._engine, local_image.registry_credentials(self._client)
        )

    def start_builder(
        self, reference: str, recipe: Recipe, folder: Path, report: Report, site: SiteAccess = NO_SITE
    ) -> AbstractContextManager[WheelBuilder]:
        """Start a temporary container of the image."""
        return wheel_builder.start_container_builder(self._client.api, reference, recipe, folder, report, site)

    def open_export(self, reference: str) -> AbstractContextManager[Iterable[bytes]]:
        """Open the image as the tar stream of `docker save`; StepError if it is interrupted."""

        @contextmanager
        def opened() -> Any:
            import docker.errors
            import requests

            api = self._client.api
            before, api.timeout = api.timeout, EXPORT_S
            try:
                yield api.get_image(reference, chunk_size=1 << 20)
            except (docker.errors.APIError, requests.RequestException) as err:
                raise StepError(
                    _(
                        "the engine's export of {reference} was interrupted: {reason}",
                        reference=reference,
                        reason=str(err)[:250],
                    ),
                    _("run the command again"),
                ) from None
            finally:
                api.timeout = before

        return opened()
