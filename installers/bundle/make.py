"""Making a bundle: what it will hold, then the file, streamed; the image is the one of this machine's engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from typing import Any, Protocol

from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.units import MIB, mib
from envcheck.core.version import __version__
from envcheck.payload import pyz
from envcheck.payload.unpack import FILE
from installers.bundle import contents, image_layout, registry_layers, wheel_builder
from installers.bundle.contents import WheelPlatform
from installers.bundle.format import HEAD, LOCK, RECIPE, SCHEMA, Head, head_text
from installers.bundle.registry_layers import Distant
from installers.bundle.tar import Writer
from installers.bundle.wheel_builder import WheelBuilder
from installers.images import image
from installers.images.engine import Engine
from installers.locks import lockfile
from installers.locks.lockfile import Built, Commit, Image, Lock, Wheel
from installers.plan.package_sizes import SIZES_MIB, SMALL_MIB
from installers.recipes.recipe import Recipe, by_index
from installers.state.progress import Event, Report

EXPORT_S = 3600.0  # Docker 20.10 copies all layers to its disk before it says the first byte
OWN_MIB = 4  # envcheck.pyz; 3.8 MiB, measured


@dataclass(frozen=True)
class Found:
    """An image of the engine; `size_bytes` is what it takes unpacked, `distant` the same at its registry."""

    reference: str
    digest: str
    architecture: str
    size_bytes: int
    distant: Distant | None = None

    @property
    def part(self) -> Part:
        if self.distant:
            size = self.distant.found.compressed_bytes
            return Part(f"image {self.reference}", "its registry, packed as it is there", round(size / MIB))
        return Part(f"image {self.reference}", "the engine of this machine", round(self.size_bytes / MIB))


class Source(Protocol):
    """Where the image comes from: EngineSource, or a test's own."""

    def find(self, references: Iterable[str]) -> Found | None: ...

    def export(self, reference: str) -> AbstractContextManager[Iterable[bytes]]: ...

    def builder(
        self, reference: str, recipe: Recipe, folder: Path, report: Report
    ) -> AbstractContextManager[WheelBuilder]:
        """A container of the image, to be thrown away."""


@dataclass(frozen=True)
class Part:
    """One line of the plan."""

    what: str
    where_from: str
    size_mib: int


@dataclass(frozen=True)
class BundlePlan:
    recipe: Recipe
    aim: WheelPlatform
    path: Path
    parts: tuple[Part, ...]
    image: Found | None = None

    @property
    def size_mib(self) -> int:
        return sum(part.size_mib for part in self.parts)


def plan(recipe: Recipe, architecture: str, path: Path, source: Source | None) -> BundlePlan:
    """What would be put together; EnvcheckError where a part of it is not to be had."""
    if recipe.hardware.architectures and architecture not in recipe.hardware.architectures:
        raise UsageError(f"{recipe.name} is not for {architecture}", f"--arch {recipe.hardware.architectures[0]}")
    aim, image = contents.target(recipe, architecture), None
    inside = _cooks_inside(recipe, architecture)
    parts = [Part(f"envcheck {__version__} as {FILE}", "this machine", OWN_MIB)]
    if recipe.image:
        image = _image(recipe, architecture, source)
        parts.append(image.part)
    for index, packages in by_index(recipe.packages):
        names = ", ".join(p.name + p.specifier for p in packages)
        size = sum(SIZES_MIB.get(p.name, SMALL_MIB) for p in packages)
        parts.append(
            Part(f"wheels for {_python(aim, inside)} on {architecture}: {names}", index or "the configured index", size)
        )
    parts += [Part(f"clone at {c.ref[:12]}", c.url, 100) for c in recipe.checkouts]
    parts += [Part(f"{b.name}, built from source", "what this machine has kept of it", 1024) for b in recipe.builds]
    return BundlePlan(recipe, aim, path.absolute(), tuple(parts), image)


def _cooks_inside(recipe: Recipe, architecture: str) -> bool:
    """The image runs on this machine, and its Python is the one that counts."""
    wanted = recipe.packages or recipe.builds or any(each.editable for each in recipe.checkouts)
    return bool(recipe.image and wanted) and architecture == machine()


def _python(aim: WheelPlatform, inside: bool) -> str:
    return "the image's Python" if inside else f"Python {aim.python}"


def _image(recipe: Recipe, architecture: str, source: Source | None) -> Found:
    assert recipe.image
    reference = recipe.image.references.get(architecture)
    if reference is None:
        raise UsageError(
            f"{recipe.name} has no image for {architecture}", f"--arch {next(iter(recipe.image.references))}"
        )
    names = (reference, *recipe.image.alternates.get(architecture, ()))
    found = source.find(names) if source else None
    platform = f"--platform linux/{image_layout.GO_NAMES.get(architecture, architecture)}"
    if found is None:
        raise EnvcheckError(f"the image {reference} is not on this machine", f"docker pull {platform} {reference}")
    if found.architecture != architecture:
        why = f"the image {found.reference} on this machine is for {found.architecture}, not {architecture}"
        raise EnvcheckError(why, f"docker pull {platform} {reference}")
    return found


def make(asked: BundlePlan, source: Source | None, report: Report) -> Lock:
    """The bundle, whole or not at all; what it holds, as a lock."""
    parent = asked.path.parent
    free = shutil.disk_usage(parent).free
    if asked.size_mib * MIB > free:
        why = f"{mib(free / MIB)} are free at {parent}, about {mib(asked.size_mib)} are needed"
        raise EnvcheckError(why, "make room, or choose another place with -o")
    with Writer(asked.path) as writer, _scratch(asked.path) as scratch:
        return _fill(asked, source, report, writer, scratch)


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """A folder beside the bundle for what is collected, always of the same name: a killed run's is cleared away.

    Only who writes the bundle comes here.
    """
    folder = path.with_name(f".{path.name}.parts")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(asked: BundlePlan, source: Source | None, report: Report, writer: Writer, scratch: Path) -> Lock:
    recipe, aim = asked.recipe, asked.aim
    report(Event("begin", f"write {FILE}"))
    payload = pyz.build(frozenset({aim.architecture} & set(pyz.MACHINES)))
    commits: tuple[Commit, ...] = ()
    if recipe.checkouts:
        report(Event("begin", "clone " + ", ".join(c.url for c in recipe.checkouts)))
        commits = contents.checkouts(recipe.checkouts, scratch)
    report(Event("begin", f"collect {len(recipe.packages)} packages and what they need"))
    wheels, made, python = _cooked(asked, source, report, scratch, commits)
    head = Head(SCHEMA, __version__, recipe.name, recipe.device, aim.architecture, python, recipe.image is not None)
    writer.add(HEAD, [head_text(head)])
    writer.add(FILE, [payload.data])
    writer.add_file(RECIPE, Path(recipe.file))
    for kind in ("wheels", "tools", "builds", "checkouts"):
        for path in sorted((scratch / kind).glob("*")):
            writer.add_file(f"{kind}/{path.name}", path)
            path.unlink()
    lock = Lock(lockfile.SCHEMA, __version__, recipe.name, lockfile.recipe_hash(recipe), aim.architecture, python,
                _put_image(asked, source, report, writer), None, wheels, commits, (), made)  # fmt: skip
    writer.add(LOCK, [lockfile.dump(lock).encode()])
    return lock


def _cooked(
    asked: BundlePlan, source: Source | None, report: Report, scratch: Path, commits: tuple[Commit, ...]
) -> tuple[tuple[Wheel, ...], tuple[Built, ...], str]:
    """Wheels, results of builds, and the Python that they are for.  For a machine that this one cannot stand for wheels
    are only fetched."""
    recipe, aim = asked.recipe, asked.aim
    bundles = {c.directory: scratch / "checkouts" / contents.bundle_name(c) for c in recipe.checkouts}
    if _cooks_inside(recipe, aim.architecture) and asked.image and source:
        place = source.builder(asked.image.reference, recipe, scratch, report)
    elif aim.here and not recipe.image:
        place = wheel_builder.environment(scratch, report)
    else:
        if recipe.builds:
            why = f"what {recipe.name} builds from source for Python {aim.python} on {aim.architecture} is not here"
            raise EnvcheckError(why, "run envcheck bundle on a machine like the one that it is for")
        return contents.wheels(recipe, aim, scratch, report, bundles), (), aim.python
    try:
        with place as builder:
            made = wheel_builder.build_wheels(builder, recipe, commits, bundles)
            return tuple(builder.wheels.values()), made, builder.python
    except StepError as err:
        raise contents.with_log(err, scratch / "builder") from None


def _put_image(asked: BundlePlan, source: Source | None, report: Report, writer: Writer) -> Image | None:
    if asked.image is None or source is None:
        return None
    report(Event("begin", f"copy the image {asked.image.reference}"))
    if (far := asked.image.distant) and (identity := registry_layers.pack(writer, far, asked.image.reference, report)):
        return Image(asked.image.reference, asked.image.digest, identity)
    with source.export(asked.image.reference) as chunks:
        told = _told(chunks, report, asked.image)
        identity = image_layout.pack(writer, told, asked.image.reference, asked.aim.architecture)
    return Image(asked.image.reference, asked.image.digest, identity)


def _told(chunks: Iterable[bytes], report: Report, image: Found) -> Iterable[bytes]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        report(Event("bytes", image.reference, min(done, image.size_bytes), image.size_bytes))


class EngineSource:
    """The images of a container engine; `client` is installers.images.engine.connect's.

    With what `engine` says of registries an image is looked for at its own, too.
    """

    def __init__(self, client: Any, engine: Engine | None = None) -> None:
        self._client, self._engine = client, engine

    def find(self, references: Iterable[str]) -> Found | None:
        import docker.errors

        for reference in references:
            try:
                told = self._client.api.inspect_image(reference)
            except docker.errors.ImageNotFound:
                continue
            except docker.errors.APIError as err:
                raise StepError(f"the engine does not tell about {reference}: {err}"[:300], "see its log") from None
            digests = [d.rpartition("@")[2] for d in told.get("RepoDigests") or ()]
            machine = {go: ours for ours, go in image_layout.GO_NAMES.items()}.get(told.get("Architecture"), "")
            far = self._distant(told, reference, machine)
            return Found(reference, digests[0] if digests else "", machine, int(told.get("Size") or 0), far)
        return None

    def _distant(self, told: Any, reference: str, machine: str) -> Distant | None:
        if self._engine is None:
            return None
        return registry_layers.look(told, reference, machine, self._engine, image.credentials(self._client))

    def builder(
        self, reference: str, recipe: Recipe, folder: Path, report: Report
    ) -> AbstractContextManager[WheelBuilder]:
        return wheel_builder.container(self._client.api, reference, recipe, folder, report)

    def export(self, reference: str) -> AbstractContextManager[Iterable[bytes]]:
        @contextmanager
        def opened() -> Any:
            import docker.errors
            import requests

            api = self._client.api
            before, api.timeout = api.timeout, EXPORT_S
            try:
                yield api.get_image(reference, chunk_size=1 << 20)
            except (docker.errors.APIError, requests.RequestException) as err:
                raise StepError(f"the engine's export of {reference} broke off: {err}"[:300], "repeat it") from None
            finally:
                api.timeout = before

        return opened()
