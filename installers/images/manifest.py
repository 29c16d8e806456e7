"""What registries say of images, read: manifests, lists of them, configurations.  All of it comes from strangers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from installers.images.engine import MACHINES
from installers.images.reference import Reference, pinned

_DOCKER, _OCI = "application/vnd.docker.distribution.manifest", "application/vnd.oci.image"
SINGLE = (f"{_DOCKER}.v2+json", f"{_OCI}.manifest.v1+json")
LISTS = (f"{_DOCKER}.list.v2+json", f"{_OCI}.index.v1+json")
SIZE_LIMIT = 4 << 20  # bytes: what Docker's own registry takes at most
LAYERS_LIMIT = 512  # overlayfs takes 128
BYTES_LIMIT = 1 << 46
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Bad(ValueError):  # noqa: N818 (a word of its own among answers, not an accident)
    """A document that cannot be used; the text says why, for a sentence that begins with the image's name."""


@dataclass(frozen=True)
class BlobReference:
    """A layer or a configuration, by the digest and the size in which it travels."""

    digest: str
    size: int


@dataclass(frozen=True)
class ResolvedImage:
    """An image in a registry, resolved.

    `digest` is the manifest's for this architecture, `list_digest` that of the list which the name leads to, "" where
    it leads to the manifest; `image_id` is the configuration's digest, by which engines know the image; `diff_ids` are
    the digests of its layers when unpacked.
    """

    reference: Reference
    digest: str
    architecture: str
    image_id: str
    layers: tuple[BlobReference, ...]
    diff_ids: tuple[str, ...]
    list_digest: str = ""

    @property
    def compressed_bytes(self) -> int:
        """That travel."""
        return sum(part.size for part in self.layers)

    @property
    def pinned(self) -> Reference:
        """By which it is pulled and containers are made."""
        return pinned(self.reference, self.digest)


@dataclass(frozen=True)
class Manifest:
    digest: str
    config: BlobReference
    layers: tuple[BlobReference, ...]


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def document(body: bytes) -> dict[str, Any]:
    """The JSON object."""
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        raise Bad("its registry answers with something that is no JSON") from None
    if not isinstance(read, dict):
        raise Bad("its registry answers with JSON of another kind")
    return read


def is_list(read: Mapping[str, Any], kind: str) -> bool:
    """OCI indexes may leave their own kind to the header."""
    return (read.get("mediaType") or kind) in LISTS or ("manifests" in read and "layers" not in read)


def choose(read: Mapping[str, Any], architecture: str) -> str:
    """The digest in a list for this architecture (uname's word); Bad names those that there are."""
    there: dict[str, str] = {}
    entries = read.get("manifests")
    for entry in entries if isinstance(entries, list) else ():
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if not isinstance(platform, dict) or platform.get("os") != "linux":
            continue
        machine, digest = str(platform.get("architecture"))[:40], entry.get("digest")
        if isinstance(digest, str) and _is_digest(digest):
            there.setdefault(MACHINES.get(machine, machine), digest)
    if architecture not in there:
        raise Bad(_other(", ".join(sorted(there)) or "no Linux at all", architecture))
    return there[architecture]


def single(body: bytes) -> Manifest:
    """A manifest of one image."""
    read = document(body)
    config, layers = read.get("config"), read.get("layers")
    if read.get("schemaVersion") != 2 or not isinstance(config, dict) or not isinstance(layers, list):
        raise Bad("its manifest is of a kind that today's engines do not take")
    if len(layers) > LAYERS_LIMIT:
        raise Bad(f"its manifest has {len(layers)} layers, more than an engine can stack")
    parts = tuple(_part(layer) for layer in layers)
    if sum(part.size for part in parts) > BYTES_LIMIT:
        raise Bad("its manifest tells a size that no image has")
    return Manifest(digest_of(body), _part(config), parts)


def layers(config: bytes, architecture: str, count: int) -> tuple[str, ...]:
    """The unpacked layers' digests in an image's configuration; Bad when it is not for the wanted architecture."""
    read = document(config)
    said = str(read.get("architecture"))[:40]
    if MACHINES.get(said, said) != architecture or read.get("os", "linux") != "linux":
        raise Bad(_other(f"{MACHINES.get(said, said)} on {str(read.get('os'))[:40]}", architecture))
    root = read.get("rootfs")
    digests = root.get("diff_ids") if isinstance(root, dict) else None
    if not isinstance(digests, list) or len(digests) != count or not all(map(_is_digest, digests)):
        raise Bad("its manifest and its configuration do not name the same layers")
    return tuple(digests)


def _other(there: str, wanted: str) -> str:
    return f"it is made for {there}, and this host's engine is {wanted}"


def _part(descriptor: object) -> BlobReference:
    known = descriptor if isinstance(descriptor, dict) else {}
    digest, size = known.get("digest"), known.get("size")
    if not isinstance(digest, str) or not _is_digest(digest):
        raise Bad("its manifest names a part without a sha256")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise Bad("its manifest names a part without its size")
    return BlobReference(digest, size)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and bool(_DIGEST.fullmatch(value))
