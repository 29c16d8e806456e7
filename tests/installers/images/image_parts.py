"""Images for the tests: made here, pushed to a registry by its own protocol, of any architecture and in any number of
layers; and the one real image, a small Debian with a Python."""

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
class Layer:
    """A compressed tar as it travels, and the digest of the bare one."""

    file: Path | bytes
    diff_id: str

    @property
    def data(self) -> bytes:
        return self.file if isinstance(self.file, bytes) else self.file.read_bytes()


def layer(files: Mapping[str, bytes]) -> Layer:
    """A layer that holds these files."""
    bare = io.BytesIO()
    with tarfile.open(fileobj=bare, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return Layer(gzip.compress(bare.getvalue(), 1, mtime=0), _digest(bare.getvalue()))


def random_layers(count: int, size: int) -> list[Layer]:
    """Layers that cannot be compressed, no two alike; `size` is in bytes."""
    return [layer({f"layer-{number}": os.urandom(size)}) for number in range(count)]


def busybox() -> Layer:
    """The smallest thing that runs: a static busybox as sh, sleep, echo, cat."""
    path = Path("/bin/busybox")
    if not path.exists():
        pytest.skip("busybox-static is not installed: tests/system-packages.sh")
    return layer({f"bin/{name}": path.read_bytes() for name in ("sh", "sleep", "echo", "cat")})


def push(
    reference: str,
    layers: Sequence[Layer],
    *,
    architecture: str = "",
    config: Mapping[str, Any] | None = None,
) -> str:
    """Put an image into the registry that the reference names; `architecture` as Go says it.  Its digest."""
    base, tag = _address(reference)
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
            "layers": [{"mediaType": LAYER, **_push_blob(link, base, one.data)} for one in layers],
        }
        return put_manifest(reference, json.dumps(manifest).encode(), MANIFEST) if tag else ""


def push_list(reference: str, digests: Mapping[str, str]) -> str:
    """A manifest list of images that the repository holds, by Go's word for the architecture.  Its digest."""
    base, _ = _address(reference)
    entries = []
    for architecture, digest in digests.items():
        body = requests.get(f"{base}/manifests/{digest}", headers={"Accept": MANIFEST}, timeout=20).content
        about = {"mediaType": MANIFEST, "digest": digest, "size": len(body)}
        entries.append(about | {"platform": {"architecture": architecture, "os": "linux"}})
    document = {"schemaVersion": 2, "mediaType": MANIFEST_LIST, "manifests": entries}
    return put_manifest(reference, json.dumps(document).encode(), MANIFEST_LIST)


def put_manifest(reference: str, body: bytes, kind: str) -> str:
    """The bytes under the reference's tag, whatever they say.  Their digest."""
    base, tag = _address(reference)
    said = requests.put(f"{base}/manifests/{tag}", data=body, headers={"Content-Type": kind}, timeout=60)
    assert said.status_code == 201, said.text
    return _digest(body)


def debian() -> Layer:
    """A Debian with a Python, made once by mmdebstrap (half a minute) and kept in tests/.cache."""
    kept = Path(os.environ.get("ENVCHECK_TEST_CACHE") or ROOT / "tests" / ".cache").absolute() / "debian-image"
    kept.mkdir(parents=True, exist_ok=True)
    wanted, made = kept / f"{_digest(repr((PACKAGES, UNWANTED)).encode())[7:19]}.tar.gz", kept / "diff_id"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs on one machine
        if not wanted.exists():
            made.write_text(_make_debian(wanted))
        return Layer(wanted, made.read_text())


def _make_debian(wanted: Path) -> str:
    """The digest of the bare tar; the packed one lies at `wanted` afterwards."""
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed: tests/system-packages.sh")
    bare = wanted.with_name("bare.tar")
    options = [f"--dpkgopt=path-exclude=/{path}/*" for path in UNWANTED]
    argv = ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", *options, "bookworm", str(bare), _mirror()]
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


def _mirror() -> str:
    """The machine's own package archive; Debian's where it does not say."""
    for path in _sources():
        if found := re.search(r"^(?:URIs:\s*|deb\s+(?:\[[^]]*\]\s*)?)(https?://\S+)", path.read_text(), re.M):
            return found[1]
    return "http://deb.debian.org/debian"


def _sources() -> Iterable[Path]:
    place = Path("/etc/apt")
    return [p for p in (place / "sources.list", *sorted(place.glob("sources.list.d/*"))) if _is_source(p)]


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix in (".list", ".sources")


def _address(reference: str) -> tuple[str, str]:
    """The repository's address in the protocol, and the tag."""
    host, _, rest = reference.partition("/")
    name, _, tag = rest.rpartition(":")
    return f"http://{host}/v2/{name}", tag


def _push_blob(link: requests.Session, base: str, data: bytes) -> dict[str, Any]:
    """Upload; its descriptor's digest and size."""
    digest = _digest(data)
    if link.head(f"{base}/blobs/{digest}", timeout=20).status_code != 200:
        place = link.post(f"{base}/blobs/uploads/", timeout=20).headers["Location"]
        said = link.put(
            f"{place}&digest={digest}", data=data, timeout=120, headers={"Content-Type": "application/octet-stream"}
        )
        assert said.status_code == 201, said.text
    return {"digest": digest, "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
