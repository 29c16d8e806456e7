"""Images in a bundle: from the engine's export to an OCI layout, and from that to a stream that the engine loads.

Docker 20.10 exports its own format and loads no OCI layout; Docker 25 and newer export both in one.  The bundle has
the OCI layout with the layers as the engine exports them (uncompressed, except with containerd's image store), so that
no time is spent on gzip.  The stream to load has the layout and the older manifest.json: every engine since 1.10, and
podman, accepts it.  The configuration, and so the image id, is preserved; the registry's digest is not, because its
manifest is not kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, verbatim
from installers.bundle.format import (
    AGAIN,
    BLOBS,
    CHUNK,
    INDEX,
    LAYOUT,
    SMALL_LIMIT,
    BundleError,
    BundleMember,
    parse_table,
)
from installers.bundle.tar import BLOCK, BundleWriter, read_member, render_header

GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
OCI = "application/vnd.oci.image."
LAYOUT_TEXT = b'{"imageLayoutVersion": "1.0.0"}'
BY_OTHERS = _("this engine exports images in a format that envcheck does not support")
_KEPT_IN_MEMORY = ("manifest.json", "index.json", "oci-layout", "repositories")
_LEFT_OUT = ("json", "VERSION")  # files of each layer from engines before 1.10
LAYERS_LIMIT = 1000
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class ImageLayer:
    """A layer blob; `diff_id` is the digest of the unpacked layer."""

    digest: str
    size: int
    diff_id: str
    packed: bool


class OversizedLayerError(ValueError):
    """A compressed layer unpacks to more than its limit; `why` completes a sentence that names the layer."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


class UnpackedDigest:
    """Compute digest and size of a layer's plain tar while its bytes pass, decompressing piece by piece.

    For a layer that is not compressed there is nothing to compute.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.packed, self.size, self._limit, self._begun = False, 0, limit, False
        self._digest = hashlib.sha256()
        self._gzip: Any = None

    def update(self, chunk: bytes) -> None:
        """Add the next bytes of the layer; OversizedLayerError above the limit."""
        if not self._begun and chunk:
            self._begun, self.packed = True, chunk.startswith(GZIP)
            self._gzip = zlib.decompressobj(31) if self.packed else None
        while chunk and self.packed:
            if self._gzip.eof:  # concatenated gzip files count as one
                self._gzip = zlib.decompressobj(31)
            self._add_data(self._gzip.decompress(chunk, CHUNK))
            chunk = self._gzip.unconsumed_tail or self._gzip.unused_data

    def _add_data(self, data: bytes) -> None:
        self._digest.update(data)
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise OversizedLayerError(_("it unpacks to more than the limit of {limit} bytes", limit=self._limit))

    def diff_id(self, plain: str) -> str:
        """Return the diff id after the last piece; `plain` is the SHA-256 of the bytes that passed."""
        if not self.packed:
            return f"sha256:{plain}"
        self._add_data(self._gzip.flush())
        return f"sha256:{self._digest.hexdigest()}"


class _ChunkStream(io.RawIOBase):
    """A file object that reads from an iterator of bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._left = iter(chunks), b""

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the iterator; return the number of bytes."""
        while not self._left:
            try:
                self._left = next(self._chunks)
            except StopIteration:
                return 0
        part = self._left[: len(buffer)]
        buffer[: len(part)] = part
        self._left = self._left[len(part) :]
        return len(part)


def pack_export(writer: BundleWriter, export: Iterable[bytes], reference: str, architecture: str) -> str:
    """Write the engine's export into the bundle; return the image id.  No layer is held in memory.

    StepError if the export is invalid, has several images, or is for another architecture.
    """
    blobs: dict[str, ImageLayer] = {}  # by path in the export
    links: dict[str, str] = {}
    small: dict[str, bytes] = {}
    stream = io.BufferedReader(_ChunkStream(export), 1 << 20)
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
            for info in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile would otherwise keep every member in memory
                _pack_entry(writer, archive, info, blobs, links, small)
    except (tarfile.TarError, EOFError, zlib.error) as err:
        raise StepError(
            _(
                "the engine's export of {reference} was interrupted or is not a tar archive: {reason}",
                reference=reference,
                reason=err,
            ),
            _("run the command again"),
        ) from None
    return _check_export(writer, blobs, links, small, reference, architecture)


def _pack_entry(writer: BundleWriter, archive: tarfile.TarFile, info: tarfile.TarInfo, blobs: dict[str, ImageLayer],
         links: dict[str, str], small: dict[str, bytes]) -> None:  # fmt: skip
    name = posixpath.normpath(info.name)
    if info.issym() or info.islnk():  # Docker 20.10: a layer identical to another one
        folder = posixpath.dirname(name) if info.issym() else ""
        links[name] = posixpath.normpath(posixpath.join(folder, info.linkname))
    elif info.isreg() and posixpath.basename(name) not in _LEFT_OUT:
        file = archive.extractfile(info)
        assert file is not None
        if name in _KEPT_IN_MEMORY:
            small[name] = file.read(SMALL_LIMIT)
            return
        plain = UnpackedDigest()
        head = bytearray()

        def chunks() -> Iterator[bytes]:
            while chunk := file.read(CHUNK):
                head.extend(chunk[: SMALL_LIMIT - len(head)] if info.size <= SMALL_LIMIT else b"")
                plain.update(chunk)
                yield chunk

        member = writer.add_blob(BLOBS, chunks())
        blobs[name] = ImageLayer(f"sha256:{member.sha256}", member.size, plain.diff_id(member.sha256), plain.packed)
        if head:
            small[name] = bytes(head)


def _check_export(
    writer: BundleWriter, blobs: Mapping[str, ImageLayer], links: Mapping[str, str], small: Mapping[str, bytes],
    reference: str, architecture: str,
) -> str:  # fmt: skip
    """Return the image id; the configuration in the export's manifest.json must match the layers."""
    try:
        (image,) = json.loads(small["manifest.json"])
        paths = [posixpath.normpath(p) for p in [image["Config"], *image["Layers"]]]
        config_path, *layer_paths = [links.get(p, p) for p in paths]
        config = json.loads(small[config_path])
        layers = [blobs[p] for p in layer_paths]
        machine, diff_ids = config["architecture"], config["rootfs"]["diff_ids"]
    except (KeyError, TypeError, ValueError):
        raise StepError(
            _("{reference}: {by_others}", reference=reference, by_others=BY_OTHERS),
            _("report this with the engine's version"),
        ) from None
    if machine != GO_NAMES.get(architecture, architecture):
        why = _(
            "{reference} on this engine is for {machine}; the bundle is for {architecture}",
            reference=reference,
            machine=machine,
            architecture=architecture,
        )
        raise StepError(
            why,
            verbatim(f"docker pull --platform linux/{GO_NAMES.get(architecture, architecture)} {reference}"),
        )
    if diff_ids != [layer.diff_id for layer in layers]:
        raise StepError(
            _("{reference}: the exported layers do not match the image's configuration", reference=reference),
            verbatim(f"docker pull {reference}"),
        )
    write_layout(writer, blobs[config_path], layers, reference, machine)
    return blobs[config_path].digest


def write_layout(
    writer: BundleWriter, config: ImageLayer, layers: Iterable[ImageLayer], reference: str, machine: str
) -> None:
    """Write the layout's own files; `machine` is the architecture as Go names it."""
    manifest = _render_manifest(config, layers)
    listed = writer.add_blob(BLOBS, [manifest])
    entry = {"mediaType": OCI + "manifest.v1+json", "digest": f"sha256:{listed.sha256}", "size": listed.size,
             "platform": {"architecture": machine, "os": "linux"},
             "annotations": {"io.containerd.image.name": reference}}  # fmt: skip
    index = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [entry]}
    writer.add_member(INDEX, [json.dumps(index, indent=1).encode()])
    writer.add_member(LAYOUT, [LAYOUT_TEXT])


def _render_manifest(config: ImageLayer, layers: Iterable[ImageLayer]) -> bytes:
    listed = [
        {
            "mediaType": OCI + ("layer.v1.tar+gzip" if layer.packed else "layer.v1.tar"),
            "digest": layer.digest,
            "size": layer.size,
        }
        for layer in layers
    ]
    about = {"mediaType": OCI + "config.v1+json", "digest": config.digest, "size": config.size}
    said = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": about, "layers": listed}
    return json.dumps(said, indent=1).encode()


@dataclass(frozen=True)
class BundledImage:
    """An image in a bundle: name, id, and the blobs of configuration, manifest and layers, in order.

    `packed`: at least one layer is compressed with gzip.
    """

    reference: str
    id: str
    architecture: str
    manifest: BundleMember
    config: BundleMember
    layers: tuple[BundleMember, ...]
    diff_ids: tuple[str, ...]
    packed: bool


def read_image(file: BinaryIO, members: Mapping[str, BundleMember], name: str) -> BundledImage:
    """Return the image that the layout describes.  BundleError if a part is missing or inconsistent."""
    try:
        (entry,) = _read_table(file, members[INDEX], name)["manifests"]
        manifest = members[BLOBS + _strip_algorithm(entry["digest"])]
        said = _read_table(file, manifest, name)
        config = members[BLOBS + _strip_algorithm(said["config"]["digest"])]
        layers = tuple(members[BLOBS + _strip_algorithm(layer["digest"])] for layer in said["layers"])
        packed = any(str(layer.get("mediaType")).endswith("gzip") for layer in said["layers"])
        about = _read_table(file, config, name)
        diff_ids = tuple(map(str, about["rootfs"]["diff_ids"]))
        reference, machine = str(entry["annotations"]["io.containerd.image.name"]), str(about["architecture"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BundleError(_("{name}: the image inside is incomplete", name=name), AGAIN) from None
    if len(diff_ids) != len(layers) or len(layers) > LAYERS_LIMIT:
        raise BundleError(
            _(
                "{name}: the image inside has {layers} layers, but lists {named_layers}",
                name=name,
                layers=len(layers),
                named_layers=len(diff_ids),
            ),
            AGAIN,
        )
    there = {go: ours for ours, go in GO_NAMES.items()}
    machine = there.get(machine, machine)
    return BundledImage(reference, f"sha256:{config.name[-64:]}", machine, manifest, config, layers, diff_ids, packed)


def _strip_algorithm(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _read_table(file: BinaryIO, member: BundleMember, name: str) -> Mapping[str, Any]:
    if member.size > SMALL_LIMIT:
        raise BundleError(
            _("{bundle}: {file} exceeds the size limit of an image description", bundle=name, file=member.name), AGAIN
        )
    return parse_table(b"".join(read_member(file, member)), name, member.name)


def stream_for_load(
    file: BinaryIO, image: BundledImage, progress: Callable[[int], None] = lambda done: None
) -> Iterator[bytes]:
    """Yield the input of `docker load`; `progress` gets the number of bytes so far."""
    members = {m.name: m for m in (image.manifest, image.config, *image.layers)}
    blobs = [m.name.removeprefix("image/") for m in (image.config, *image.layers)]
    older = [{"Config": blobs[0], "RepoTags": _repository_tags(image.reference), "Layers": blobs[1:]}]
    entry = {"mediaType": OCI + "manifest.v1+json", "digest": f"sha256:{image.manifest.name[-64:]}",
             "size": image.manifest.size, "annotations": {"io.containerd.image.name": image.reference}}  # fmt: skip
    index = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [entry]}
    done = 0
    for name, member in members.items():
        yield render_header(name.removeprefix("image/"), member.size)
        for chunk in read_member(file, member):
            yield chunk
            done += len(chunk)
            progress(done)
        yield bytes(-member.size % BLOCK)
    for name, said in (("manifest.json", older), ("index.json", index), ("oci-layout", json.loads(LAYOUT_TEXT))):
        raw = json.dumps(said).encode()
        yield render_header(name, len(raw)) + raw + bytes(-len(raw) % BLOCK)
    yield bytes(2 * BLOCK)


def _repository_tags(reference: str) -> list[str]:
    """Return the tags; an image named by digest only gets none and is started by its id."""
    return [] if "@" in reference else [reference]
