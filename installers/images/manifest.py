"""Parse the documents of a registry: manifests, manifest lists, image configurations.  All of it is untrusted input."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core.messages import Message, _, join
from installers.images.docker_engine import MACHINES
from installers.images.reference import ImageReference, pin_reference

_DOCKER, _OCI = "application/vnd.docker.distribution.manifest", "application/vnd.oci.image"
SINGLE = (f"{_DOCKER}.v2+json", f"{_OCI}.manifest.v1+json")
LISTS = (f"{_DOCKER}.list.v2+json", f"{_OCI}.index.v1+json")
SIZE_LIMIT = 4 << 20  # bytes: the limit of Docker's own registry
LAYERS_LIMIT = 512  # overlayfs supports 128
BYTES_LIMIT = 1 << 46
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class InvalidManifest(ValueError):  # noqa: N818 (an expected answer of a registry, not a program error)
    """A document that cannot be used; `why` follows the name of the image in the message."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class BlobReference:
    """A layer or a configuration: digest and size in bytes of the compressed content."""

    digest: str
    size: int


@dataclass(frozen=True)
class ResolvedImage:
    """An image in a registry, resolved for one architecture.

    `digest` is that of the manifest; `list_digest` is that of the manifest list that the name refers to, "" if it
    refers to the manifest itself; `image_id` is the digest of the configuration, which engines use as image id;
    `diff_ids` are the digests of the unpacked layers.  If only the engine reaches the registry, `digest` may be that of
    the list, and the other fields are empty.
    """

    reference: ImageReference
    digest: str
    architecture: str
    image_id: str
    layers: tuple[BlobReference, ...]
    diff_ids: tuple[str, ...]
    list_digest: str = ""

    @property
    def compressed_bytes(self) -> int:
        """Return the download size in bytes."""
        return sum(part.size for part in self.layers)

    @property
    def pinned_reference(self) -> ImageReference:
        """Return the name with digest by which the image is pulled and containers are created."""
        return pin_reference(self.reference, self.digest)


@dataclass(frozen=True)
class ImageManifest:
    """The manifest of one image for one platform; `digest` is its own."""

    digest: str
    config: BlobReference
    layers: tuple[BlobReference, ...]


def is_digest(text: str) -> bool:
    """Return whether the text is a digest as registries write it."""
    return bool(_DIGEST.fullmatch(text))


def compute_digest(body: bytes) -> str:
    """Return the digest of a document as registries write it: sha256:HEX."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def parse_document(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response; raise InvalidManifest if it is not one."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidManifest(_("the registry's response is not JSON")) from None
    if not isinstance(document, dict):
        raise InvalidManifest(_("the registry's response has an unexpected structure"))
    return document


def is_list(read: Mapping[str, Any], kind: str) -> bool:
    """Return whether the document is a manifest list; `kind` is the Content-Type, OCI indexes may lack mediaType."""
    return (read.get("mediaType") or kind) in LISTS or ("manifests" in read and "layers" not in read)


def choose_digest(read: Mapping[str, Any], architecture: str) -> str:
    """Return the digest in a manifest list for this architecture (as named by uname); raise InvalidManifest if none."""
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
        raise InvalidManifest(_wrong_architecture(join(", ", sorted(there)) or _("no Linux platform"), architecture))
    return there[architecture]


def parse_manifest(body: bytes) -> ImageManifest:
    """Return the manifest of one image; raise InvalidManifest if it cannot be used."""
    read = parse_document(body)
    config, layers = read.get("config"), read.get("layers")
    if read.get("schemaVersion") != 2 or not isinstance(config, dict) or not isinstance(layers, list):
        raise InvalidManifest(_("the image's manifest type is no longer supported by container engines"))
    if len(layers) > LAYERS_LIMIT:
        raise InvalidManifest(
            _("the manifest has {count} layers, more than a container engine supports", count=len(layers))
        )
    parts = tuple(_parse_blob(layer) for layer in layers)
    if sum(part.size for part in parts) > BYTES_LIMIT:
        raise InvalidManifest(_("the manifest lists an implausible size"))
    return ImageManifest(compute_digest(body), _parse_blob(config), parts)


def parse_diff_ids(config: bytes, architecture: str, count: int) -> tuple[str, ...]:
    """Return the digests of the unpacked layers in an image configuration.

    Raises InvalidManifest if the image is for another architecture or has another number of layers than `count`.
    """
    read = parse_document(config)
    machine = str(read.get("architecture"))[:40]
    found = MACHINES.get(machine, machine)
    if found != architecture or read.get("os", "linux") != "linux":
        system = str(read.get("os"))[:40]
        raise InvalidManifest(
            _wrong_architecture(_("{architecture} on {system}", architecture=found, system=system), architecture)
        )
    root = read.get("rootfs")
    digests = root.get("diff_ids") if isinstance(root, dict) else None
    if not isinstance(digests, list) or len(digests) != count or not all(map(_is_digest, digests)):
        raise InvalidManifest(_("the manifest and the image configuration list different layers"))
    return tuple(digests)


def _wrong_architecture(there: str, wanted: str) -> Message:
    return _("the image is for {there}; this host's container engine is {wanted}", there=there, wanted=wanted)


def _parse_blob(descriptor: object) -> BlobReference:
    known = descriptor if isinstance(descriptor, dict) else {}
    digest, size = known.get("digest"), known.get("size")
    if not isinstance(digest, str) or not _is_digest(digest):
        raise InvalidManifest(_("a part in the manifest has no SHA-256"))
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidManifest(_("a part in the manifest has no size"))
    return BlobReference(digest, size)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and bool(_DIGEST.fullmatch(value))
