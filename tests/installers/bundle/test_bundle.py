"""Bundles: whole or not at all, refused before anything changes, and taken apart into what pip and the engine want."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from installers.bundle import read_bundle
from installers.bundle import tar as bundle_tar
from installers.bundle.format import BundleError
from tests.installers.bundle.bundle_helpers import make, rewritten, sha256, tar
from tests.installers.provision_helpers import ROOT


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def refusal(path: Path, architecture: str = "x86_64") -> str:
    """Why it is refused.  Nothing may have been written by then."""
    with pytest.raises(BundleError) as refused:
        read_bundle.verify(path, architecture)
    assert not (path.parent / "home").exists()
    assert refused.value.next_step
    assert "\n" not in refused.value.message
    return refused.value.message


def test_whole_bundle(tmp_path: Path) -> None:
    """A whole bundle is taken for one, and its parts come out as they were put in."""
    path = make(tmp_path)
    seen: list[int] = []
    found = read_bundle.verify(path, "x86_64", lambda event: seen.append(event.done))
    parts = read_bundle.unpack(found)

    assert seen[-1] == sum(m.size for m in found.members.values())
    assert parts.recipe.name == parts.lock.recipe == "little"
    assert [p.name for p in parts.wheels.iterdir()] == [parts.lock.wheels[0].file]
    assert sha256((parts.wheels / parts.lock.wheels[0].file).read_bytes()) == parts.lock.wheels[0].sha256
    assert found.image and parts.lock.image
    assert found.image.id == parts.lock.image.id


def test_tar_reads_it(tmp_path: Path) -> None:
    """Anybody's tar reads a bundle, so that envcheck can be taken out of it where there is none yet."""
    path = make(tmp_path)
    done = subprocess.run(["tar", "xf", path, "envcheck.pyz"], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "envcheck.pyz").read_bytes() == b"pyz"


def test_second_look_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle that was taken apart is not read again; one that was touched since is."""
    path = make(tmp_path)
    read_bundle.unpack(read_bundle.verify(path, "x86_64"))
    read: list[str] = []
    monkeypatch.setattr(read_bundle, "_read_all", lambda *_: read.append("all"))
    read_bundle.verify(path, "x86_64")
    untouched = list(read)
    os.utime(path)
    read_bundle.verify(path, "x86_64")

    assert (untouched, read) == ([], ["all"])


def flipped(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def offset(path: Path, name: str) -> int:
    with path.open("rb", buffering=0) as file:
        return next(m.offset for m in bundle_tar.walk(file, "b") if m.name.startswith(name))


def link(path: Path, kind: bytes, target: str = "/etc/passwd") -> None:
    """One member becomes something else under its own good name."""
    at = offset(path, "wheels/") - 512
    info = tarfile.TarInfo("wheels/alpha-1.0-py3-none-any.whl")
    info.type, info.linkname = kind, target
    with path.open("r+b") as file:
        file.seek(at)
        file.write(info.tobuf(tarfile.GNU_FORMAT))


def renamed(path: Path, name: str) -> None:
    with path.open("r+b") as file:
        at = offset(path, "wheels/")
        file.seek(at - 512)
        info = tarfile.TarInfo.frombuf(file.read(512), "utf-8", "strict")
        info.name = name
        file.seek(at - 512)
        file.write(info.tobuf(tarfile.GNU_FORMAT)[:512])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (lambda p: flipped(p, offset(p, "image/blobs/") + 100), "is damaged: image/blobs/sha256/"),
    "flipped-wheel": (lambda p: flipped(p, offset(p, "wheels/") + 3), "is damaged: wheels/alpha"),
    "flipped-header": (lambda p: flipped(p, offset(p, "wheels/") - 500), "does not end with its manifest"),
    "cut-in-member": (lambda p: os.truncate(p, offset(p, "image/blobs/") + 10), "is cut off at"),
    "cut-in-header": (lambda p: os.truncate(p, offset(p, "wheels/") - 500), "does not end with its manifest"),
    "empty": (lambda p: os.truncate(p, 0), "is no bundle"),
    "symlink": (lambda p: link(p, tarfile.SYMTYPE), "which is no plain file"),
    "hardlink": (lambda p: link(p, tarfile.LNKTYPE), "which is no plain file"),
    "device": (lambda p: link(p, tarfile.CHRTYPE), "which is no plain file"),
    "fifo": (lambda p: link(p, tarfile.FIFOTYPE), "which is no plain file"),
    "folder": (lambda p: link(p, tarfile.DIRTYPE), "which is no plain file"),
    "pax": (lambda p: link(p, tarfile.XHDTYPE), "which is no plain file"),
    "sparse": (lambda p: link(p, tarfile.GNUTYPE_SPARSE), "which is no plain file"),
    "escape": (lambda p: renamed(p, "wheels/../../x.whl"), "which no bundle does"),
    "absolute": (lambda p: renamed(p, "/etc/cron.d/x"), "which no bundle does"),
    "option": (lambda p: renamed(p, "wheels/-x.whl"), "which no bundle does"),
    "twice": (lambda p: renamed(p, "recipe.toml"), "holds recipe.toml twice"),
    "unlisted": (lambda p: renamed(p, "wheels/beta-1.0-py3-none-any.whl"), "its manifest does not know it"),
    "gzip": (lambda p: p.write_bytes(b"\x1f\x8b" + bytes(2000)), "is packed with gzip"),
    "page": (lambda p: p.write_text("<html>" * 500), "is no bundle"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused(tmp_path: Path, name: str) -> None:
    """A bundle that is damaged, cut off, or holds anything but plain files in their places is refused in a sentence."""
    path = make(tmp_path)
    hurt, expected = DAMAGE[name]
    hurt(path)

    assert expected in refusal(path)


def test_foreign_architecture(tmp_path: Path) -> None:
    """A bundle for another architecture is refused by its first lines, however big it is."""
    path = make(tmp_path)
    os.truncate(path, 4096)  # nothing behind the head is read

    assert refusal(path, "aarch64") == "little.tar was made for x86_64, this machine is aarch64"


def head(**change: object) -> bytes:
    said = {"schema": 1, "envcheck": "1", "recipe": "little", "device": "cpu", "python": "3.11", "image": True}
    said["architecture"] = "x86_64"
    return json.dumps(said | change).encode()


def locked_to_another_image() -> bytes:
    """The lock of a whole bundle, but for the image's id."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(make(Path(folder))) as archive:
        file = archive.extractfile("envcheck.lock")
        assert file
        return re.sub(rb'(id = "sha256:)[0-9a-f]{64}', rb"\g<1>" + b"0" * 64, file.read())


def bomb() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big", bytes(20 << 20))
    return raw.getvalue()


def escaping() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("../../x", b"x")
    return raw.getvalue()


WHEEL = "tools/alpha-1.0-py3-none-any.whl"
FORGED: dict[str, tuple[Callable[[], dict[str, bytes | None]], str]] = {
    "schema": (lambda: {"envcheck-bundle.json": head(schema=2)}, "of schema '2'; this envcheck reads 1"),
    "schema-text": (lambda: {"envcheck-bundle.json": head(schema="1")}, "of schema"),
    "head": (lambda: {"envcheck-bundle.json": head(image="yes")}, "image: expected true or false"),
    "head-junk": (lambda: {"envcheck-bundle.json": b"[" * 5000}, "is no JSON table"),
    "no-head": (lambda: {"envcheck-bundle.json": None}, "does not come first"),
    "no-lock": (lambda: {"envcheck.lock": None}, "has no envcheck.lock"),
    "lock": (lambda: {"envcheck.lock": b"schema = 1"}, "envcheck.lock: envcheck: missing"),
    "recipe": (lambda: {"recipe.toml": b"name = 3"}, "recipe.toml: "),
    "other-recipe": (lambda: {"envcheck-bundle.json": head(recipe="x")}, "contradicts itself about its recipe"),
    "other-image": (lambda: {"envcheck.lock": locked_to_another_image()}, "its lock says"),
    "no-image-said": (lambda: {"envcheck-bundle.json": head(image=False)}, "contradicts itself about its image"),
    "no-wheel": (lambda: {"wheels/alpha-1.0-py3-none-any.whl": None}, "is not the one of its lock"),
    "wheel": (lambda: {"wheels/alpha-1.0-py3-none-any.whl": b"x"}, "is not the one of its lock"),
    "no-zip": (lambda: {WHEEL: b"x"}, "is no wheel"),
    "bomb": (lambda: {WHEEL: bomb()}, "would unpack to"),
    "zip-escape": (lambda: {WHEEL: escaping()}, "which leads out of it"),
    "no-index": (lambda: {"image/index.json": None}, "contradicts itself about its image"),
    "index": (lambda: {"image/index.json": b'{"manifests": [{"digest": "../../x"}]}'}, "image in it is not whole"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Contents that contradict each other are refused, even under a manifest that is in order."""
    change, expected = FORGED[name]
    monkeypatch.setattr(read_bundle, "SPARE_BYTES", 1 << 20)  # a bomb of 256 MiB takes seconds to make

    assert expected in refusal(rewritten(make(tmp_path), change()))


def test_layer_of_another_image(tmp_path: Path) -> None:
    """A blob whose name is not its digest, and a packed layer that unpacks to something else, are refused."""
    path = make(tmp_path)
    with path.open("rb", buffering=0) as file:
        name = next(m.name for m in bundle_tar.walk(file, "b") if m.name.startswith("image/blobs/"))

    assert "has another sha256 than its name" in refusal(rewritten(path, {name: tar({"x": b"y"})}))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32))
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, whole: bytes, seed: int) -> None:
    """Wherever a bit is changed, the bundle is refused in a sentence: none of it is taken on trust.

    One, since two in the owner's or the time's field of a tar's header, which nobody reads, can leave its sum alone.
    """
    dice, raw = random.Random(seed), bytearray(whole)
    at = dice.randrange(len(raw))
    raw[at] ^= 1 << dice.randrange(8)
    path = tmp_path_factory.mktemp("any") / "x.tar"
    path.write_bytes(raw)
    is_padding = not whole[at] or at % 512 == 155  # between members, and behind the sum in a header
    try:
        read_bundle.verify(path, "x86_64")
    except BundleError as err:
        assert "\n" not in err.message
    else:
        assert is_padding


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make(tmp_path_factory.mktemp("whole")).read_bytes()


def test_changed_between(tmp_path: Path) -> None:
    """A bundle that is exchanged between the look and the use is not used."""
    path = make(tmp_path)
    found = read_bundle.verify(path, "x86_64")
    flipped(path, offset(path, "wheels/") + 3)

    with pytest.raises(BundleError, match="was changed"):
        read_bundle.unpack(found)
    with pytest.raises(BundleError, match="was changed"):
        list(read_bundle.image_stream(found))
    assert not found.folder.exists()


def test_interrupted_writing_leaves_nothing(tmp_path: Path) -> None:
    """An error or Ctrl-C leaves no half file, and what stood there before stays."""
    path = tmp_path / "x.tar"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), bundle_tar.Writer(path) as writer:
        writer.add("recipe.toml", [b"x"])
        raise KeyboardInterrupt

    assert [p.name for p in tmp_path.iterdir()] == ["x.tar"]
    assert path.read_text() == "before"


def test_two_writers(tmp_path: Path) -> None:
    """Two runs do not write into one file."""
    with bundle_tar.Writer(tmp_path / "x.tar"), pytest.raises(UsageError, match="another envcheck is writing"):
        bundle_tar.Writer(tmp_path / "x.tar").__enter__()


def test_disk_full(tmp_path: Path) -> None:
    """A full disk is told in a sentence, and the half file is gone."""
    code = f"""
import resource, signal
from pathlib import Path
from installers.bundle import tar
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
with tar.Writer(Path({str(tmp_path / "x.tar")!r})) as writer:
    writer.add("recipe.toml", (bytes(1 << 18) for _ in range(16)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert "StepError: cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []
