"""What is passed on: the recipe's image as its registry has it, for each architecture, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import StepError
from envcheck.core.units import gib
from installers.images import manifest, reference, registry
from installers.images.engine import Engine
from installers.images.manifest import BlobReference, ResolvedImage
from installers.images.registry_link import Credentials, Link, Refusal
from installers.recipes.recipe import Image
from installers.seeds.blob import CHUNK, Blob

ROOM_LEFT = 1 << 28  # bytes that others on that disk need meanwhile


@dataclass(frozen=True)
class Store:
    """By digest: manifests with their kind, and blobs.  `names` are the images', for people."""

    names: tuple[str, ...]
    manifests: Mapping[str, tuple[str, bytes]]
    blobs: Mapping[str, Blob]

    @property
    def why(self) -> str:
        """What keeps a part from coming; "" where nothing does."""
        return next((blob.why for blob in self.blobs.values() if blob.why), "")


def filled(image: Image, registries: tuple[str, ...], host: Engine, credentials: Credentials, folder: Path) -> Store:
    """Asks the registries for manifests alone; StepError where none has it, or there is no room for it here."""
    found, why = [], []
    for architecture in image.references:
        names = reference.candidates(image, architecture, registries)
        try:
            found.append(registry.resolve(names, replace(host, architecture=architecture), credentials))
        except StepError as err:
            why.append(err)
    if not found:
        raise why[0]
    _room(max(one.compressed_bytes for one in found), folder)
    manifests: dict[str, tuple[str, bytes]] = {}
    blobs: dict[str, Blob] = {}
    for one in found:
        manifests[one.digest] = _manifest(one, host, credentials)
        parts = (manifest.single(manifests[one.digest][1]).config, *one.layers)
        source = _source(one, host, credentials)
        blobs |= {part.digest: Blob(part, source, folder) for part in parts if part.digest not in blobs}
    return Store(tuple(str(one.reference) for one in found), manifests, blobs)


def _room(needed: int, folder: Path) -> None:
    told = os.statvfs(folder)
    free = told.f_bavail * told.f_frsize
    if free < needed + ROOM_LEFT:
        why = f"{gib(needed + ROOM_LEFT)} are needed at {folder} to pass the image on, and {gib(free)} are free"
        raise StepError(why, "make room, set ENVCHECK_HOME to a larger disk there, or name another --seed-node")


def _manifest(found: ResolvedImage, host: Engine, credentials: Credentials) -> tuple[str, bytes]:
    def of(link: Link) -> tuple[str, bytes]:
        body, kind = link.get(f"manifests/{found.digest}", manifest.SIZE_LIMIT, ", ".join(manifest.SINGLE))
        if manifest.digest_of(body) != found.digest:
            raise Refusal(f"{link.host} gives something else under {found.digest[:19]}...", "")
        return kind, body

    said: list[str] = []
    for link in registry.links(found.reference, host, credentials):
        try:
            return of(link)
        except Refusal as refusal:
            said.append(refusal.message)
    raise StepError(f"{found.reference}: {'; '.join(said) or 'no registry answers'}", "repeat it")


def _source(
    found: ResolvedImage, host: Engine, credentials: Credentials
) -> Callable[[BlobReference, int], Iterator[bytes]]:
    def pieces(part: BlobReference, start: int) -> Iterator[bytes]:
        """From the first place that begins to give it."""
        last = Refusal(f"{found.reference.host} cannot be reached", "", passing=True)
        for link in registry.links(found.reference, host, credentials):
            begun = False
            try:
                for piece in link.pieces(f"blobs/{part.digest}", CHUNK, start):
                    begun = True
                    yield piece
                return
            except Refusal as refusal:
                last = refusal
                if begun:
                    break
        raise last

    return pieces
