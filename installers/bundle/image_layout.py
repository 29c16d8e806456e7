"""An image in a bundle: from the engine's export stream to an OCI layout, and from that to a stream the engine loads.

Docker 20.10 exports a format of its own and loads no OCI layout; Docker 25 and newer export both in one.  Kept is the
OCI layout, layers as the engine gave them (not packed, but with containerd's image store), so that nothing waits for
gzip.  The stream to load holds the layout and the older manifest.json: every engine since 1.10, and podman, takes it.
The configuration and with it the image's id stay; the registry's digest does not, as its manifest is not kept.
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
from installers.bundle.format import AGAIN, BLOBS, CHUNK, INDEX, LAYOUT, SMALL_LIMIT, BundleError, Member, table
from installers.bundle.tar import BLOCK, Writer, content, header

GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
OCI = "application/vnd.oci.image."
LAYOUT_TEXT = b'{"imageLayoutVersion": "1.0.0"}'
BY_OTHERS = "this engine exports images in a way that envcheck does not know"
_KEPT_IN_MEMORY = ("manifest.json", "index.json", "oci-layout", "repositories")
_LEFT_OUT = ("json", "VERSION")  # of each layer, from engines before 1.10
LAYERS_LIMIT = 1000
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Layer:
    """`diff_id` is the digest of the layer unpacked."""

    digest: str
    size: int
    diff_id: str
    packed: bool


class Unpacked:
    """Digest and size of a packed layer as a plain tar, found while its bytes go by, undone a piece at a time.

    Of a plain layer nothing is kept: it is what it is.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.packed, self.size, self._limit, self._begun = False, 0, limit, False
        self._digest = hashlib.sha256()
        self._gzip: Any = None

    def update(self, chunk: bytes) -> None:
        if not self._begun and chunk:
            self._begun, self.packed = True, chunk.startswith(GZIP)
            self._gzip = zlib.decompressobj(31) if self.packed else None
        while chunk and self.packed:
            if self._gzip.eof:  # several gzip files one behind the other are one
                self._gzip = zlib.decompressobj(31)
            self._take(self._gzip.decompress(chunk, CHUNK))
            chunk = self._gzip.unconsumed_tail or self._gzip.unused_data

    def _take(self, data: bytes) -> None:
        self._digest.update(data)
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise ValueError("unpacks to more than was said")

    def diff_id(self, plain: str) -> str:
        """After the last piece; `plain` is the sha256 of what went by."""
        if not self.packed:
            return f"sha256:{plain}"
        self._take(self._gzip.flush())
        return f"sha256:{self._digest.hexdigest()}"


class _Stream(io.RawIOBase):
    """What an iterator of bytes gives, as a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._left = iter(chunks), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            try:
                self._left = next(self._chunks)
            except StopIteration:
                return 0
        part = self._left[: len(buffer)]
        buffer[: len(part)] = part
        self._left = self._left[len(part) :]
        return len(part)


def pack(writer: Writer, export: Iterable[bytes], reference: str, architecture: str) -> str:
    """The engine's export into the bundle; the image's id.  Nothing of a layer is kept in memory.

    StepError where the export is none, holds several images, or one for another architecture.
    """
    blobs: dict[str, Layer] = {}  # by the path in the export
    links: dict[str, str] = {}
    small: dict[str, bytes] = {}
    stream = io.BufferedReader(_Stream(export), 1 << 20)
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
            for info in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # else it remembers every one of them
                _one(writer, archive, info, blobs, links, small)
    except (tarfile.TarError, EOFError, zlib.error) as err:
        raise StepError(f"the engine's export of {reference} broke off or is no tar: {err}", "repeat it") from None
    return _checked(writer, blobs, links, small, reference, architecture)


def _one(writer: Writer, archive: tarfile.TarFile, info: tarfile.TarInfo, blobs: dict[str, Layer],
         links: dict[str, str], small: dict[str, bytes]) -> None:  # fmt: skip
    name = posixpath.normpath(info.name)
    if info.issym() or info.islnk():  # Docker 20.10: a layer that is the same as another's
        folder = posixpath.dirname(name) if info.issym() else ""
        links[name] = posixpath.normpath(posixpath.join(folder, info.linkname))
    elif info.isreg() and posixpath.basename(name) not in _LEFT_OUT:
        file = archive.extractfile(info)
        assert file is not None
        if name in _KEPT_IN_MEMORY:
            small[name] = file.read(SMALL_LIMIT)
            return
        plain = Unpacked()
        head = bytearray()

        def chunks() -> Iterator[bytes]:
            while chunk := file.read(CHUNK):
                head.extend(chunk[: SMALL_LIMIT - len(head)] if info.size <= SMALL_LIMIT else b"")
                plain.update(chunk)
                yield chunk

        member = writer.add_blob(BLOBS, chunks())
        blobs[name] = Layer(f"sha256:{member.sha256}", member.size, plain.diff_id(member.sha256), plain.packed)
        if head:
            small[name] = bytes(head)


def _checked(writer: Writer, blobs: Mapping[str, Layer], links: Mapping[str, str], small: Mapping[str, bytes],
              reference: str, architecture: str) -> str:  # fmt: skip
    """The image's id; the configuration that the export's manifest.json names must agree with the layers."""
    try:
        (image,) = json.loads(small["manifest.json"])
        paths = [posixpath.normpath(p) for p in [image["Config"], *image["Layers"]]]
        config_path, *layer_paths = [links.get(p, p) for p in paths]
        config = json.loads(small[config_path])
        layers = [blobs[p] for p in layer_paths]
        said = (config["architecture"], config["rootfs"]["diff_ids"])
    except (KeyError, TypeError, ValueError):
        raise StepError(f"{reference}: {BY_OTHERS}", "report it, with the engine's version") from None
    if said[0] != GO_NAMES.get(architecture, architecture):
        why = f"{reference} on this engine is for {said[0]}, the bundle for {architecture}"
        raise StepError(why, f"docker pull --platform linux/{GO_NAMES.get(architecture, architecture)} {reference}")
    if said[1] != [layer.diff_id for layer in layers]:
        raise StepError(f"{reference}: the exported layers are not those of its configuration", "pull it again")
    describe(writer, blobs[config_path], layers, reference, said[0])
    return blobs[config_path].digest


def describe(writer: Writer, config: Layer, layers: Iterable[Layer], reference: str, machine: str) -> None:
    """The layout's own files; `machine` is Go's word."""
    manifest = _manifest(config, layers)
    listed = writer.add_blob(BLOBS, [manifest])
    entry = {"mediaType": OCI + "manifest.v1+json", "digest": f"sha256:{listed.sha256}", "size": listed.size,
             "platform": {"architecture": machine, "os": "linux"},
             "annotations": {"io.containerd.image.name": reference}}  # fmt: skip
    index = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [entry]}
    writer.add(INDEX, [json.dumps(index, indent=1).encode()])
    writer.add(LAYOUT, [LAYOUT_TEXT])


def _manifest(config: Layer, layers: Iterable[Layer]) -> bytes:
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
    """An image in a bundle: its name, its id, and the blobs of configuration, manifest and layers, in order.

    `packed`: with gzip, at least one of the layers.
    """

    reference: str
    id: str
    architecture: str
    manifest: Member
    config: Member
    layers: tuple[Member, ...]
    diff_ids: tuple[str, ...]
    packed: bool


def find(file: BinaryIO, members: Mapping[str, Member], name: str) -> BundledImage:
    """The image that the layout describes; BundleError where a piece is missing or does not agree."""
    try:
        (entry,) = _small(file, members[INDEX], name)["manifests"]
        manifest = members[BLOBS + _hex(entry["digest"])]
        said = _small(file, manifest, name)
        config = members[BLOBS + _hex(said["config"]["digest"])]
        layers = tuple(members[BLOBS + _hex(layer["digest"])] for layer in said["layers"])
        packed = any(str(layer.get("mediaType")).endswith("gzip") for layer in said["layers"])
        about = _small(file, config, name)
        diff_ids = tuple(map(str, about["rootfs"]["diff_ids"]))
        reference, machine = str(entry["annotations"]["io.containerd.image.name"]), str(about["architecture"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BundleError(f"{name}: the image in it is not whole", AGAIN) from None
    if len(diff_ids) != len(layers) or len(layers) > LAYERS_LIMIT:
        raise BundleError(f"{name}: the image in it has {len(layers)} layers and names {len(diff_ids)}", AGAIN)
    there = {go: ours for ours, go in GO_NAMES.items()}
    machine = there.get(machine, machine)
    return BundledImage(reference, f"sha256:{config.name[-64:]}", machine, manifest, config, layers, diff_ids, packed)


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _small(file: BinaryIO, member: Member, name: str) -> Mapping[str, Any]:
    if member.size > SMALL_LIMIT:
        raise BundleError(f"{name}: {member.name} is larger than a description can be", AGAIN)
    return table(b"".join(content(file, member)), name, member.name)


def load_stream(
    file: BinaryIO, image: BundledImage, tell: Callable[[int], None] = lambda done: None
) -> Iterator[bytes]:
    """What `docker load` reads; `tell` hears how many bytes went by."""
    members = {m.name: m for m in (image.manifest, image.config, *image.layers)}
    blobs = [m.name.removeprefix("image/") for m in (image.config, *image.layers)]
    older = [{"Config": blobs[0], "RepoTags": _tags(image.reference), "Layers": blobs[1:]}]
    entry = {"mediaType": OCI + "manifest.v1+json", "digest": f"sha256:{image.manifest.name[-64:]}",
             "size": image.manifest.size, "annotations": {"io.containerd.image.name": image.reference}}  # fmt: skip
    index = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [entry]}
    done = 0
    for name, member in members.items():
        yield header(name.removeprefix("image/"), member.size)
        for chunk in content(file, member):
            yield chunk
            done += len(chunk)
            tell(done)
        yield bytes(-member.size % BLOCK)
    for name, said in (("manifest.json", older), ("index.json", index), ("oci-layout", json.loads(LAYOUT_TEXT))):
        raw = json.dumps(said).encode()
        yield header(name, len(raw)) + raw + bytes(-len(raw) % BLOCK)
    yield bytes(2 * BLOCK)


def _tags(reference: str) -> list[str]:
    """An image that is named by its digest alone gets no tag; it is started by its id."""
    return [] if "@" in reference else [reference]
