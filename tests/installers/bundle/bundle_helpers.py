"""Small bundles made without engine and pip, and exports as both generations of engines write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from installers.bundle import image_layout
from installers.bundle.format import HEAD, LOCK, RECIPE, BundleHead, render_head
from installers.bundle.tar import BundleWriter
from installers.locks import lockfile
from installers.locks.lockfile import Lock, LockedImage, LockedWheel
from installers.recipes import loader
from tests.installers.provision_helpers import write_recipe, write_wheel

REFERENCE = "registry.example/little:1"
WITH_IMAGE = f'[image.references]\nx86_64 = "{REFERENCE}"\n'


def make_tar(files: Mapping[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def hash_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


LAYERS = (make_tar({"etc/one": b"1" * 5000}), make_tar({"etc/two": b"2" * 70_000}))


def make_image_config(layers: tuple[bytes, ...] = LAYERS, architecture: str = "amd64") -> bytes:
    diffs = [f"sha256:{hash_sha256(layer)}" for layer in layers]
    return json.dumps(
        {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": diffs}}
    ).encode()


def make_old_export(layers: tuple[bytes, ...] = LAYERS, architecture: str = "amd64") -> bytes:
    """Return an export of Docker 20.10: a folder per layer, a duplicate layer as a link."""
    about = make_image_config(layers, architecture)
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
        manifest = [{"Config": f"{hash_sha256(about)}.json", "RepoTags": [REFERENCE], "Layers": names}]
        for inside, content in (
            (f"{hash_sha256(about)}.json", about),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(inside)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def make_new_export(packed: bool) -> bytes:
    """Return an export of Docker 25 and newer, compressed if from containerd's image store."""
    about = make_image_config()
    blobs = [gzip.compress(layer) if packed else layer for layer in LAYERS]
    paths = [f"blobs/sha256/{hash_sha256(blob)}" for blob in (about, *blobs)]
    manifest = [{"Config": paths[0], "RepoTags": [REFERENCE], "Layers": paths[1:]}]
    named = dict(zip(paths, (about, *blobs), strict=True))
    return make_tar({**named, "index.json": b"{}", "oci-layout": b"{}", "manifest.json": json.dumps(manifest).encode()})


def split_chunks(raw: bytes, size: int = 7000) -> Iterator[bytes]:
    for at in range(0, len(raw), size):
        yield raw[at : at + size]


def make_bundle(folder: Path, *, image: bytes | None = b"", architecture: str = "x86_64") -> Path:
    """Write a complete small bundle: one wheel, the same as a tool, and an image."""
    recipes = write_recipe(folder / "recipes", "alpha ==1.0", more=WITH_IMAGE if image is not None else "")
    recipe = loader.load_recipe(recipes / "little.toml")
    alpha = write_wheel(folder / "index", "alpha", "1.0")
    path = folder / "little.tar"
    with BundleWriter(path) as writer:
        writer.add_member(
            HEAD, [render_head(BundleHead(1, "0.1.0", "little", "cpu", architecture, "3.11", image is not None))]
        )
        writer.add_file(RECIPE, recipes / "little.toml")
        writer.add_member("envcheck.pyz", [b"pyz"])
        writer.add_file(f"tools/{alpha.name}", alpha)
        writer.add_file(f"wheels/{alpha.name}", alpha)
        found = None
        if image is not None:
            identity = image_layout.pack_export(
                writer, split_chunks(image or make_old_export()), REFERENCE, architecture
            )
            found = LockedImage(REFERENCE, "", identity)
        locked = LockedWheel("alpha", "1.0", alpha.name, hash_sha256(alpha.read_bytes()))
        lock = Lock(1, "0.1.0", "little", lockfile.hash_recipe(recipe), architecture, "3.11", found, None, (locked,))
        writer.add_member(LOCK, [lockfile.render_lock(lock).encode()])
    return path


def rewrite_bundle(path: Path, change: Mapping[str, bytes | None], extra: Mapping[str, bytes] | None = None) -> Path:
    """Rewrite the bundle with other contents under a valid manifest, as a forger would; None omits a member."""
    target = path.with_name("forged.tar")
    with tarfile.open(path) as archive, BundleWriter(target) as writer:
        for info in archive.getmembers():
            file = archive.extractfile(info)
            content = change.get(info.name, file.read() if file else b"")
            if info.name != "manifest.json" and content is not None:
                writer.add_member(info.name, [content])
        for name, content in (extra or {}).items():
            writer.add_member(name, [content])
    return target
