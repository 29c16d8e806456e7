"""An image's layers for a bundle straight from its registry, packed as they travel.

That is fewer bytes than the engine's export, and none is copied twice: Docker's own store first writes all layers to
its disk and then reads them again.  It is the engine's very image: its digest leads to the manifest, that to a
configuration with the image's id.  Whatever is in the way, slowness included, is no failure: the engine has it all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.units import MIB
from installers.bundle import image_layout
from installers.bundle.format import BLOBS, CHUNK
from installers.bundle.image_layout import GO_NAMES, GZIP, Layer
from installers.bundle.tar import Writer
from installers.images import manifest, registry
from installers.images.engine import Engine
from installers.images.reference import parse, pinned
from installers.images.registry_link import Credentials, Link, Refusal
from installers.state.progress import Event, Report

EXPORT_MIB_S = 100  # what an engine's export comes to, beside the same disk; 77 to 120 measured with Docker 28
TRIAL_S = 5.0  # a connection needs a moment to come up to speed


@dataclass(frozen=True)
class Distant:
    """The engine's image at its registry; `unpacked_bytes` are what its export would have."""

    found: manifest.ResolvedImage
    engine: Engine
    credentials: Credentials
    unpacked_bytes: int


def look(
    told: Mapping[str, Any], reference: str, architecture: str, engine: Engine, credentials: Credentials
) -> Distant | None:
    """`told` is what the engine says of the image; None where its registry does not give that very image."""
    name = parse(reference).name
    known = [r for r in map(parse, told.get("RepoDigests") or ()) if r.name == name]
    if not known:
        return None
    aim = replace(engine, architecture=architecture)
    try:
        found = registry.resolve([pinned(known[0], known[0].digest)], aim, credentials, attempts=1)
    except EnvcheckError:
        return None
    same = told.get("Id") in (found.image_id, found.digest, found.list_digest)
    return Distant(found, aim, credentials, int(told.get("Size") or 0)) if same else None


def pack(writer: Writer, distant: Distant, reference: str, report: Report) -> str | None:
    """The image's id, once all of it is in the bundle; None, and nothing of it there, where the engine must do it."""
    mark = writer.mark()
    for link in registry.links(distant.found.reference, distant.engine, distant.credentials):
        try:
            return _all(writer, link, distant, reference, report)
        except Refusal as no:
            writer.back(mark)
            report(Event("say", f"{no.message}: the engine's own copy is taken"))
    return None


def _all(writer: Writer, link: Link, distant: Distant, reference: str, report: Report) -> str:
    found = distant.found
    pace = Pace(found.compressed_bytes, distant.unpacked_bytes / MIB / EXPORT_MIB_S, reference, report)
    config = _one(writer, link, manifest.BlobReference(found.image_id, manifest.SIZE_LIMIT), "", pace)
    known: dict[str, Layer] = {}
    for part, diff_id in zip(found.layers, found.diff_ids, strict=True):
        if part.digest not in known:
            known[part.digest] = _one(writer, link, part, diff_id, pace)
    layers = [known[part.digest] for part in found.layers]
    image_layout.describe(writer, config, layers, reference, GO_NAMES.get(found.architecture, found.architecture))
    return found.image_id


def _one(writer: Writer, link: Link, part: manifest.BlobReference, diff_id: str, pace: Pace) -> Layer:
    """One blob, of that digest and no larger than its size.  A packing that is not gzip's is not for a bundle."""
    begins = bytearray()

    def pieces() -> Iterator[bytes]:
        size = 0
        for chunk in link.pieces(f"blobs/{part.digest}", CHUNK):
            if not begins and chunk:
                begins.extend(chunk[:2])
                if diff_id not in ("", part.digest) and not chunk.startswith(GZIP):
                    raise Refusal(f"{link.host} has layers that are packed in another way than with gzip", "")
            size += len(chunk)
            if size > part.size:
                raise Refusal(f"{link.host} gives more than {part.size} bytes for {part.digest[:19]}...", "")
            pace.goes(len(chunk))
            yield chunk

    member = writer.add_blob(BLOBS, pieces())
    if f"sha256:{member.sha256}" != part.digest:
        raise Refusal(f"{link.host} gives something else under {part.digest[:19]}...", "")
    return Layer(part.digest, member.size, diff_id, begins.startswith(GZIP))


class Pace:
    """Tells how far it is; Refusal once the rest would take longer than the engine needs for all of it."""

    def __init__(self, total: int, engine_s: float, name: str, report: Report) -> None:
        self._total, self._engine_s, self._name, self._report = total, engine_s, name, report
        self._done, self._began = 0, time.monotonic()

    def goes(self, count: int) -> None:
        self._done += count
        self._report(Event("bytes", self._name, min(self._done, self._total), self._total))
        spent = time.monotonic() - self._began
        left_s = spent * (self._total - self._done) / self._done
        if spent > TRIAL_S and left_s > self._engine_s:
            raise Refusal(f"its registry would take another {left_s:.0f} s for {self._name}", "")
