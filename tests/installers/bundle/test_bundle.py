"""Bundles: complete or absent, refused before anything changes, and unpacked for pip and the engine."""

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
from installers.bundle import archive_reader
from installers.bundle import tar as bundle_tar
from installers.bundle.format import BundleError
from tests.installers.bundle.bundle_helpers import hash_sha256, make_bundle, make_tar, rewrite_bundle
from tests.installers.provision_helpers import ROOT


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def read_refusal(path: Path, architecture: str = "x86_64") -> str:
    """Return why the bundle is refused; nothing may have been written."""
    with pytest.raises(BundleError) as refused:
        archive_reader.verify_bundle(path, architecture)
    assert not (path.parent / "home").exists()
    assert refused.value.next_step
    assert "\n" not in refused.value.message
    return refused.value.message


def test_whole_bundle(tmp_path: Path) -> None:
    """A complete bundle is verified, and its parts are unpacked unchanged."""
    path = make_bundle(tmp_path)
    seen: list[int] = []
    found = archive_reader.verify_bundle(path, "x86_64", lambda event: seen.append(event.done))
    parts = archive_reader.unpack_bundle(found)

    assert seen[-1] == sum(m.size for m in found.members.values())
    assert parts.recipe.name == parts.lock.recipe == "little"
    assert [p.name for p in parts.wheels_folder.iterdir()] == [parts.lock.wheels[0].file]
    assert hash_sha256((parts.wheels_folder / parts.lock.wheels[0].file).read_bytes()) == parts.lock.wheels[0].sha256
    assert found.image and parts.lock.image
    assert found.image.id == parts.lock.image.id


def test_tar_reads_it(tmp_path: Path) -> None:
    """Any tar reads a bundle, so that envcheck can be extracted on a machine without it."""
    path = make_bundle(tmp_path)
    done = subprocess.run(["tar", "xf", path, "envcheck.pyz"], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "envcheck.pyz").read_bytes() == b"pyz"


def test_second_look_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unpacked bundle is not read again; one that changed since is."""
    path = make_bundle(tmp_path)
    archive_reader.unpack_bundle(archive_reader.verify_bundle(path, "x86_64"))
    read: list[str] = []
    monkeypatch.setattr(archive_reader, "_check_members", lambda *_: read.append("all"))
    archive_reader.verify_bundle(path, "x86_64")
    untouched = list(read)
    os.utime(path)
    archive_reader.verify_bundle(path, "x86_64")

    assert (untouched, read) == ([], ["all"])


def flip_byte(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def find_offset(path: Path, name: str) -> int:
    with path.open("rb", buffering=0) as file:
        return next(m.offset for m in bundle_tar.list_members(file, "b") if m.name.startswith(name))


def replace_by_link(path: Path, kind: bytes, target: str = "/etc/passwd") -> None:
    """Turn one member into another kind under its valid name."""
    at = find_offset(path, "wheels/") - 512
    info = tarfile.TarInfo("wheels/alpha-1.0-py3-none-any.whl")
    info.type, info.linkname = kind, target
    with path.open("r+b") as file:
        file.seek(at)
        file.write(info.tobuf(tarfile.GNU_FORMAT))


def rename_member(path: Path, name: str) -> None:
    with path.open("r+b") as file:
        at = find_offset(path, "wheels/")
        file.seek(at - 512)
        info = tarfile.TarInfo.frombuf(file.read(512), "utf-8", "strict")
        info.name = name
        file.seek(at - 512)
        file.write(info.tobuf(tarfile.GNU_FORMAT)[:512])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (lambda p: flip_byte(p, find_offset(p, "image/blobs/") + 100), "is corrupt: image/blobs/sha256/"),
    "flipped-wheel": (lambda p: flip_byte(p, find_offset(p, "wheels/") + 3), "is corrupt: wheels/alpha"),
    "flipped-header": (lambda p: flip_byte(p, find_offset(p, "wheels/") - 500), "the manifest at its end is missing"),
    "cut-in-member": (lambda p: os.truncate(p, find_offset(p, "image/blobs/") + 10), "is truncated at"),
    "cut-in-header": (lambda p: os.truncate(p, find_offset(p, "wheels/") - 500), "the manifest at its end is missing"),
    "empty": (lambda p: os.truncate(p, 0), "is not an envcheck bundle"),
    "symlink": (lambda p: replace_by_link(p, tarfile.SYMTYPE), "is not a regular file"),
    "hardlink": (lambda p: replace_by_link(p, tarfile.LNKTYPE), "is not a regular file"),
    "device": (lambda p: replace_by_link(p, tarfile.CHRTYPE), "is not a regular file"),
    "fifo": (lambda p: replace_by_link(p, tarfile.FIFOTYPE), "is not a regular file"),
    "folder": (lambda p: replace_by_link(p, tarfile.DIRTYPE), "is not a regular file"),
    "pax": (lambda p: replace_by_link(p, tarfile.XHDTYPE), "is not a regular file"),
    "sparse": (lambda p: replace_by_link(p, tarfile.GNUTYPE_SPARSE), "is not a regular file"),
    "escape": (lambda p: rename_member(p, "wheels/../../x.whl"), "which does not belong in a bundle"),
    "absolute": (lambda p: rename_member(p, "/etc/cron.d/x"), "which does not belong in a bundle"),
    "option": (lambda p: rename_member(p, "wheels/-x.whl"), "which does not belong in a bundle"),
    "twice": (lambda p: rename_member(p, "recipe.toml"), "contains recipe.toml twice"),
    "unlisted": (lambda p: rename_member(p, "wheels/beta-1.0-py3-none-any.whl"), "is not listed in the manifest"),
    "gzip": (lambda p: p.write_bytes(b"\x1f\x8b" + bytes(2000)), "is compressed with gzip"),
    "page": (lambda p: p.write_text("<html>" * 500), "is not an envcheck bundle"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused(tmp_path: Path, name: str) -> None:
    """A bundle that is damaged, truncated, or has unexpected members is refused with a message."""
    path = make_bundle(tmp_path)
    hurt, expected = DAMAGE[name]
    hurt(path)

    assert expected in read_refusal(path)


@pytest.mark.parametrize(("name", "code"), (("empty", 2), ("page", 2), ("absent", 2)))
def test_what_is_no_bundle_is_wrong_usage(tmp_path: Path, name: str, code: int) -> None:
    """A file that is not there, or is no bundle at all, has the exit code of every unreadable input file."""
    path = make_bundle(tmp_path)
    DAMAGE[name][0](path) if name in DAMAGE else path.unlink()
    with pytest.raises(BundleError) as caught:
        archive_reader.verify_bundle(path, "x86_64")

    assert caught.value.code == code


def test_foreign_architecture(tmp_path: Path) -> None:
    """A bundle for another architecture is refused by its head, whatever its size."""
    path = make_bundle(tmp_path)
    os.truncate(path, 4096)  # nothing after the head is read

    assert read_refusal(path, "aarch64") == "little.tar was built for x86_64; this machine is aarch64"


def make_head(**change: object) -> bytes:
    said = {"schema": 1, "envcheck": "1", "recipe": "little", "device": "cpu", "python": "3.11", "image": True}
    said["architecture"] = "x86_64"
    return json.dumps(said | change).encode()


def make_foreign_lock() -> bytes:
    """Return the lock of a complete bundle with another image id."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(make_bundle(Path(folder))) as archive:
        file = archive.extractfile("envcheck.lock")
        assert file
        return re.sub(rb'(id = "sha256:)[0-9a-f]{64}', rb"\g<1>" + b"0" * 64, file.read())


def make_zip_bomb() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big", bytes(20 << 20))
    return raw.getvalue()


def make_escaping_zip() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("../../x", b"x")
    return raw.getvalue()


WHEEL = "tools/alpha-1.0-py3-none-any.whl"
FORGED: dict[str, tuple[Callable[[], dict[str, bytes | None]], str]] = {
    "schema": (lambda: {"envcheck-bundle.json": make_head(schema=2)}, "with schema '2'; this envcheck reads schema 1"),
    "schema-text": (lambda: {"envcheck-bundle.json": make_head(schema="1")}, "with schema"),
    "head": (lambda: {"envcheck-bundle.json": make_head(image="yes")}, "image: expected true or false"),
    "head-junk": (lambda: {"envcheck-bundle.json": b"[" * 5000}, "not a JSON object"),
    "no-head": (lambda: {"envcheck-bundle.json": None}, "its first entry is not envcheck-bundle.json"),
    "no-lock": (lambda: {"envcheck.lock": None}, "envcheck.lock is missing"),
    "lock": (lambda: {"envcheck.lock": b"schema = 1"}, "envcheck.lock: envcheck: missing"),
    "recipe": (lambda: {"recipe.toml": b"name = 3"}, "recipe.toml: "),
    "other-recipe": (lambda: {"envcheck-bundle.json": make_head(recipe="x")}, "values for recipe: 'x' and 'little'"),
    "other-image": (lambda: {"envcheck.lock": make_foreign_lock()}, "its lock file lists"),
    "no-image-said": (lambda: {"envcheck-bundle.json": make_head(image=False)}, "two values for image"),
    "no-wheel": (lambda: {"wheels/alpha-1.0-py3-none-any.whl": None}, "does not match the lock file"),
    "wheel": (lambda: {"wheels/alpha-1.0-py3-none-any.whl": b"x"}, "does not match the lock file"),
    "no-zip": (lambda: {WHEEL: b"x"}, "is not a wheel"),
    "bomb": (lambda: {WHEEL: make_zip_bomb()}, "would unpack to"),
    "zip-escape": (lambda: {WHEEL: make_escaping_zip()}, "which points outside the archive"),
    "no-index": (lambda: {"image/index.json": None}, "two values for image"),
    "index": (lambda: {"image/index.json": b'{"manifests": [{"digest": "../../x"}]}'}, "image inside is incomplete"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Inconsistent contents are refused, even under a valid manifest."""
    change, expected = FORGED[name]
    monkeypatch.setattr(archive_reader, "SPARE_BYTES", 1 << 20)  # a bomb of 256 MiB takes seconds to make

    assert expected in read_refusal(rewrite_bundle(make_bundle(tmp_path), change()))


def test_layer_of_another_image(tmp_path: Path) -> None:
    """A blob whose name is not its digest, and a layer that unpacks to something else, are refused."""
    path = make_bundle(tmp_path)
    with path.open("rb", buffering=0) as file:
        name = next(m.name for m in bundle_tar.list_members(file, "b") if m.name.startswith("image/blobs/"))

    assert "does not match its name" in read_refusal(rewrite_bundle(path, {name: make_tar({"x": b"y"})}))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32))
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, whole: bytes, seed: int) -> None:
    """A bundle with one changed bit anywhere is refused with a message.

    Only one bit, because two in the owner or time field of a tar header, which is not read, can cancel in its
    checksum.
    """
    dice, raw = random.Random(seed), bytearray(whole)
    at = dice.randrange(len(raw))
    raw[at] ^= 1 << dice.randrange(8)
    path = tmp_path_factory.mktemp("any") / "x.tar"
    path.write_bytes(raw)
    is_padding = not whole[at] or at % 512 == 155  # between members, and after a header's checksum
    try:
        archive_reader.verify_bundle(path, "x86_64")
    except BundleError as err:
        assert "\n" not in err.message
    else:
        assert is_padding


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_bundle(tmp_path_factory.mktemp("whole")).read_bytes()


def test_changed_between(tmp_path: Path) -> None:
    """A bundle replaced between verification and use is not used."""
    path = make_bundle(tmp_path)
    found = archive_reader.verify_bundle(path, "x86_64")
    flip_byte(path, find_offset(path, "wheels/") + 3)

    with pytest.raises(BundleError, match="changed while it was being read"):
        archive_reader.unpack_bundle(found)
    with pytest.raises(BundleError, match="changed after it was verified"):
        list(archive_reader.stream_image(found))
    assert not found.folder.exists()


def test_interrupted_writing_leaves_nothing(tmp_path: Path) -> None:
    """An error or Ctrl-C leaves no partial file, and an existing file stays."""
    path = tmp_path / "x.tar"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), bundle_tar.BundleWriter(path) as writer:
        writer.add_member("recipe.toml", [b"x"])
        raise KeyboardInterrupt

    assert [p.name for p in tmp_path.iterdir()] == ["x.tar"]
    assert path.read_text() == "before"


def test_two_writers(tmp_path: Path) -> None:
    """Two runs do not write to one file."""
    with (
        bundle_tar.BundleWriter(tmp_path / "x.tar"),
        pytest.raises(UsageError, match="another envcheck process is writing"),
    ):
        bundle_tar.BundleWriter(tmp_path / "x.tar").__enter__()


def test_disk_full(tmp_path: Path) -> None:
    """A full disk is reported with a message, and the partial file is deleted."""
    code = f"""
import resource, signal
from pathlib import Path
from installers.bundle import tar
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
with tar.BundleWriter(Path({str(tmp_path / "x.tar")!r})) as writer:
    writer.add_member("recipe.toml", (bytes(1 << 18) for _ in range(16)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert "StepError: cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []
