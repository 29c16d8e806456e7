"""Images for tests: created here and pushed with the registry protocol, for any architecture and number of layers; and
one real image, a small Debian with Python."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

ROOT = Path(__file__).parents[3]
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG, LAYER = "application/vnd.docker.container.image.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip"
PACKAGES = "python3,python3-pip,python3-venv,python-is-python3,git,ca-certificates,libgomp1,libstdc++6"
UNWANTED = ("usr/share/man", "usr/share/doc", "usr/share/info", "usr/share/locale")
PYTHON_CONFIG: Mapping[str, Any] = {
    # Debian refuses pip outside of an environment; the vendors' images do not.
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PIP_BREAK_SYSTEM_PACKAGES=1"],
    "Cmd": ["bash"],
    "WorkingDir": "/root",
}
BUILD_S = 900
_GO = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class ImageLayer:
    """Return a compressed tar, and the digest of the uncompressed one."""

    file: Path | bytes
    diff_id: str

    @property
    def packed_data(self) -> bytes:
        return self.file if isinstance(self.file, bytes) else self.file.read_bytes()


def make_layer(files: Mapping[str, bytes]) -> ImageLayer:
    """Return a layer with these files."""
    bare = io.BytesIO()
    with tarfile.open(fileobj=bare, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return ImageLayer(gzip.compress(bare.getvalue(), 1, mtime=0), _make_digest(bare.getvalue()))


def make_random_layers(count: int, size: int) -> list[ImageLayer]:
    """Return different layers that cannot be compressed; `size` is in bytes."""
    return [make_layer({f"layer-{number}": os.urandom(size)}) for number in range(count)]


def make_busybox() -> ImageLayer:
    """Return a layer with a static busybox as sh, sleep, echo and cat, the smallest image that runs."""
    path = Path("/bin/busybox")
    if not path.exists():
        pytest.skip("busybox-static is not installed: tests/system-packages.sh")
    return make_layer({f"bin/{name}": path.read_bytes() for name in ("sh", "sleep", "echo", "cat")})


def push_image(
    reference: str,
    layers: Sequence[ImageLayer],
    *,
    architecture: str = "",
    config: Mapping[str, Any] | None = None,
) -> str:
    """Push an image under the reference; `architecture` as in GOARCH.  Returns its digest."""
    base, tag = _split_reference(reference)
    document = {
        "architecture": architecture or _GO.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": dict(config or {"Cmd": ["/bin/sh"]}),
        "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in layers]},
        "history": [{"created_by": "envcheck's tests"} for _ in layers],
        "created": "2026-01-01T00:00:00Z",
    }
    with requests.Session() as link:
        link.trust_env = False
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, **_push_blob(link, base, json.dumps(document).encode())},
            "layers": [{"mediaType": LAYER, **_push_blob(link, base, one.packed_data)} for one in layers],
        }
        return put_manifest(reference, json.dumps(manifest).encode(), MANIFEST) if tag else ""


def push_manifest_list(reference: str, digests: Mapping[str, str]) -> str:
    """Push a manifest list of images in the repository, by GOARCH.  Returns its digest."""
    base, _ = _split_reference(reference)
    entries = []
    for architecture, digest in digests.items():
        body = requests.get(f"{base}/manifests/{digest}", headers={"Accept": MANIFEST}, timeout=20).content
        about = {"mediaType": MANIFEST, "digest": digest, "size": len(body)}
        entries.append(about | {"platform": {"architecture": architecture, "os": "linux"}})
    document = {"schemaVersion": 2, "mediaType": MANIFEST_LIST, "manifests": entries}
    return put_manifest(reference, json.dumps(document).encode(), MANIFEST_LIST)


def put_manifest(reference: str, body: bytes, kind: str) -> str:
    """Push these bytes as the manifest of the reference's tag.  Returns their digest."""
    base, tag = _split_reference(reference)
    said = requests.put(f"{base}/manifests/{tag}", data=body, headers={"Content-Type": kind}, timeout=60)
    assert said.status_code == 201, said.text
    return _make_digest(body)


def load_debian() -> ImageLayer:
    """Create a Debian with Python by mmdebstrap (30 s), once, and keep it in tests/.cache."""
    kept = Path(os.environ.get("ENVCHECK_TEST_CACHE") or ROOT / "tests" / ".cache").absolute() / "debian-image"
    kept.mkdir(parents=True, exist_ok=True)
    wanted, made = kept / f"{_make_digest(repr((PACKAGES, UNWANTED)).encode())[7:19]}.tar.gz", kept / "diff_id"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine
        if not wanted.exists():
            made.write_text(_make_debian(wanted))
        return ImageLayer(wanted, made.read_text())


def _make_debian(wanted: Path) -> str:
    """Return the digest of the uncompressed tar; the compressed one is written to `wanted`."""
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed: tests/system-packages.sh")
    bare = wanted.with_name("bare.tar")
    options = [f"--dpkgopt=path-exclude=/{path}/*" for path in UNWANTED]
    argv = ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", *options, "bookworm", str(bare), find_mirror()]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_S)
    if done.returncode != 0:
        pytest.fail(f"the Debian image could not be made:\n{done.stderr[-2000:]}", pytrace=False)
    packed = wanted.with_suffix(".part")
    with bare.open("rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    with bare.open("rb") as source:
        digest = hashlib.sha256()
        for chunk in iter(lambda: source.read(1 << 20), b""):
            digest.update(chunk)
    bare.unlink()
    packed.rename(wanted)
    return f"sha256:{digest.hexdigest()}"


def find_mirror() -> str:
    """Return the package archive of this machine, else Debian's."""
    for path in _list_sources():
        if found := re.search(r"^(?:URIs:\s*|deb\s+(?:\[[^]]*\]\s*)?)(https?://\S+)", path.read_text(), re.M):
            return found[1]
    return "http://deb.debian.org/debian"


def _list_sources() -> Iterable[Path]:
    place = Path("/etc/apt")
    return [p for p in (place / "sources.list", *sorted(place.glob("sources.list.d/*"))) if _is_source(p)]


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix in (".list", ".sources")


def _split_reference(reference: str) -> tuple[str, str]:
    """Return the URL of the repository, and the tag."""
    host, _, rest = reference.partition("/")
    name, _, tag = rest.rpartition(":")
    return f"http://{host}/v2/{name}", tag


def _push_blob(link: requests.Session, base: str, data: bytes) -> dict[str, Any]:
    """Upload a blob and return digest and size of its descriptor."""
    digest = _make_digest(data)
    if link.head(f"{base}/blobs/{digest}", timeout=20).status_code != 200:
        place = link.post(f"{base}/blobs/uploads/", timeout=20).headers["Location"]
        said = link.put(
            f"{place}&digest={digest}", data=data, timeout=120, headers={"Content-Type": "application/octet-stream"}
        )
        assert said.status_code == 201, said.text
    return {"digest": digest, "size": len(data)}


def _make_digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
