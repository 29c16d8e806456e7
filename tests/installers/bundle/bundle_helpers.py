"""Small bundles made without an engine and without pip, and exports as engines of both generations write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from installers.bundle import image_layout
from installers.bundle.format import HEAD, LOCK, RECIPE, Head, head_text
from installers.bundle.tar import Writer
from installers.locks import lockfile
from installers.locks.lockfile import Image, Lock, Wheel
from installers.recipes import recipes_file
from tests.installers.provision_helpers import recipe_file, wheel

REFERENCE = "registry.example/little:1"
WITH_IMAGE = f'[image.references]\nx86_64 = "{REFERENCE}"\n'


def tar(files: Mapping[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


LAYERS = (tar({"etc/one": b"1" * 5000}), tar({"etc/two": b"2" * 70_000}))


def config(layers: tuple[bytes, ...] = LAYERS, architecture: str = "amd64") -> bytes:
    diffs = [f"sha256:{sha256(layer)}" for layer in layers]
    return json.dumps(
        {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": diffs}}
    ).encode()


def old_export(layers: tuple[bytes, ...] = LAYERS, architecture: str = "amd64") -> bytes:
    """As Docker 20.10 writes it: a folder for each layer, a layer that is there already as a link."""
    about = config(layers, architecture)
    raw, names = io.BytesIO(), list[str]()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for number, layer in enumerate(layers):
            name = f"{number:064x}/layer.tar"
            for inside, content in ((f"{number:064x}/VERSION", b"1.0"), (f"{number:064x}/json", b"{}")):
                info = tarfile.TarInfo(inside)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            info = tarfile.TarInfo(name)
            if layer in layers[:number]:
                info.type, info.linkname = tarfile.SYMTYPE, f"../{layers.index(layer):064x}/layer.tar"
                archive.addfile(info)
            else:
                info.size = len(layer)
                archive.addfile(info, io.BytesIO(layer))
            names.append(name)
        manifest = [{"Config": f"{sha256(about)}.json", "RepoTags": [REFERENCE], "Layers": names}]
        for inside, content in ((f"{sha256(about)}.json", about), ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(inside)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def new_export(packed: bool) -> bytes:
    """As Docker 25 and newer write it, with containerd's image store packed."""
    about = config()
    blobs = [gzip.compress(layer) if packed else layer for layer in LAYERS]
    paths = [f"blobs/sha256/{sha256(blob)}" for blob in (about, *blobs)]
    manifest = [{"Config": paths[0], "RepoTags": [REFERENCE], "Layers": paths[1:]}]
    named = dict(zip(paths, (about, *blobs), strict=True))
    return tar({**named, "index.json": b"{}", "oci-layout": b"{}", "manifest.json": json.dumps(manifest).encode()})


def chunks(raw: bytes, size: int = 7000) -> Iterator[bytes]:
    for at in range(0, len(raw), size):
        yield raw[at : at + size]


def make(folder: Path, *, image: bytes | None = b"", architecture: str = "x86_64") -> Path:
    """A whole small bundle: one wheel, the same as a tool, and an image."""
    recipes = recipe_file(folder / "recipes", "alpha ==1.0", more=WITH_IMAGE if image is not None else "")
    recipe = recipes_file.load(recipes / "little.toml")
    alpha = wheel(folder / "index", "alpha", "1.0")
    path = folder / "little.tar"
    with Writer(path) as writer:
        writer.add(HEAD, [head_text(Head(1, "0.1.0", "little", "cpu", architecture, "3.11", image is not None))])
        writer.add_file(RECIPE, recipes / "little.toml")
        writer.add("envcheck.pyz", [b"pyz"])
        writer.add_file(f"tools/{alpha.name}", alpha)
        writer.add_file(f"wheels/{alpha.name}", alpha)
        found = None
        if image is not None:
            identity = image_layout.pack(writer, chunks(image or old_export()), REFERENCE, architecture)
            found = Image(REFERENCE, "", identity)
        locked = Wheel("alpha", "1.0", alpha.name, sha256(alpha.read_bytes()))
        lock = Lock(1, "0.1.0", "little", lockfile.recipe_hash(recipe), architecture, "3.11", found, None, (locked,))
        writer.add(LOCK, [lockfile.dump(lock).encode()])
    return path


def rewritten(path: Path, change: Mapping[str, bytes | None], extra: Mapping[str, bytes] | None = None) -> Path:
    """The bundle with other contents under an honest manifest, as a forger would make it; None leaves a member out."""
    target = path.with_name("forged.tar")
    with tarfile.open(path) as archive, Writer(target) as writer:
        for info in archive.getmembers():
            file = archive.extractfile(info)
            content = change.get(info.name, file.read() if file else b"")
            if info.name != "manifest.json" and content is not None:
                writer.add(info.name, [content])
        for name, content in (extra or {}).items():
            writer.add(name, [content])
    return target
