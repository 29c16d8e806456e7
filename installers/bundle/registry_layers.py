"""Download an image's compressed layers for a bundle directly from its registry.

This transfers fewer bytes than the engine's export and copies none twice: Docker's own store writes all layers to its
disk before it sends them.  It is exactly the engine's image: its digest leads to the manifest, and that to a
configuration with the image id.  No problem here, slowness included, is a failure: the engine's copy is used instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.messages import NOTHING, _, verbatim
from envcheck.core.units import MIB
from installers.bundle import image_layout
from installers.bundle.format import BLOBS, CHUNK
from installers.bundle.image_layout import GO_NAMES, GZIP, ImageLayer
from installers.bundle.tar import BundleWriter
from installers.images import manifest, registry
from installers.images.docker_engine import DockerEngine
from installers.images.reference import parse_reference, pin_reference
from installers.images.registry_connection import Credentials, RegistryConnection, RegistryRefusal
from installers.state.progress import ProgressEvent, Report

EXPORT_MIB_S = 100  # speed of an engine's export from the same disk; 77 to 120 measured with Docker 28
TRIAL_S = 5.0  # time for a connection to reach its full speed


@dataclass(frozen=True)
class RegistryImage:
    """The engine's image in its registry; `unpacked_bytes` is the size of its export."""

    found: manifest.ResolvedImage
    engine: DockerEngine
    credentials: Credentials
    unpacked_bytes: int


def find_registry_image(
    inspected: Mapping[str, Any], reference: str, architecture: str, engine: DockerEngine, credentials: Credentials
) -> RegistryImage | None:
    """Return the image in its registry, None if the registry does not have exactly it.

    `inspected` is the engine's information on the image.
    """
    name = parse_reference(reference).name
    known = [r for r in map(parse_reference, inspected.get("RepoDigests") or ()) if r.name == name]
    if not known:
        return None
    aim = replace(engine, architecture=architecture)
    try:
        found = registry.resolve_image([pin_reference(known[0], known[0].digest)], aim, credentials, attempts=1)
    except EnvcheckError:
        return None
    same = inspected.get("Id") in (found.image_id, found.digest, found.list_digest)
    return RegistryImage(found, aim, credentials, int(inspected.get("Size") or 0)) if same else None


def pack_from_registry(writer: BundleWriter, distant: RegistryImage, reference: str, report: Report) -> str | None:
    """Return the image id after all of it is in the bundle; None, with nothing added, if the engine must be used."""
    mark = writer.mark_position()
    for link in registry.open_connections(distant.found.reference, distant.engine, distant.credentials):
        try:
            return _pack_layers(writer, link, distant, reference, report)
        except RegistryRefusal as no:
            writer.rewind_to(mark)
            report(ProgressEvent("say", _("{message}; using the engine's copy", message=no.message)))
    return None


def _pack_layers(
    writer: BundleWriter, link: RegistryConnection, distant: RegistryImage, reference: str, report: Report
) -> str:
    found = distant.found
    pace = TransferPace(found.compressed_bytes, distant.unpacked_bytes / MIB / EXPORT_MIB_S, reference, report)
    config = _pack_blob(writer, link, manifest.BlobReference(found.image_id, manifest.SIZE_LIMIT), "", pace)
    known: dict[str, ImageLayer] = {}
    for part, diff_id in zip(found.layers, found.diff_ids, strict=True):
        if part.digest not in known:
            known[part.digest] = _pack_blob(writer, link, part, diff_id, pace)
    layers = [known[part.digest] for part in found.layers]
    image_layout.write_layout(writer, config, layers, reference, GO_NAMES.get(found.architecture, found.architecture))
    return found.image_id


def _pack_blob(
    writer: BundleWriter, link: RegistryConnection, part: manifest.BlobReference, diff_id: str, pace: TransferPace
) -> ImageLayer:
    """Add one blob with this digest, no larger than its size.  Only gzip compression is accepted."""
    begins = bytearray()

    def pieces() -> Iterator[bytes]:
        size = 0
        for chunk in link.stream_pieces(f"blobs/{part.digest}", CHUNK):
            if not begins and chunk:
                begins.extend(chunk[:2])
                if diff_id not in ("", part.digest) and not chunk.startswith(GZIP):
                    raise RegistryRefusal(
                        _("{host} provides layers that are not gzip-compressed", host=link.host), NOTHING
                    )
            size += len(chunk)
            if size > part.size:
                raise RegistryRefusal(
                    _(
                        "{host} sent more than {size} bytes for {digest}...",
                        host=link.host,
                        size=part.size,
                        digest=part.digest[:19],
                    ),
                    NOTHING,
                )
            pace.add_bytes(len(chunk))
            yield chunk

    member = writer.add_blob(BLOBS, pieces())
    if f"sha256:{member.sha256}" != part.digest:
        raise RegistryRefusal(
            _("{host} sent content that does not match {digest}...", host=link.host, digest=part.digest[:19]), NOTHING
        )
    return ImageLayer(part.digest, member.size, diff_id, begins.startswith(GZIP))


class TransferPace:
    """Reports progress; raises Refusal when the rest would take longer than the engine's export of everything."""

    def __init__(self, total: int, engine_s: float, name: str, report: Report) -> None:
        self._total, self._engine_s, self._name, self._report = total, engine_s, name, report
        self._done, self._began = 0, time.monotonic()

    def add_bytes(self, count: int) -> None:
        """Count received bytes and report progress."""
        self._done += count
        self._report(ProgressEvent("bytes", verbatim(self._name), min(self._done, self._total), self._total))
        spent = time.monotonic() - self._began
        left_s = spent * (self._total - self._done) / self._done
        if spent > TRIAL_S and left_s > self._engine_s:
            raise RegistryRefusal(
                _(
                    "downloading {name} from its registry would take another {left_s:.0f} s",
                    left_s=left_s,
                    name=self._name,
                ),
                NOTHING,
            )
