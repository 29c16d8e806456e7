"""`make dist`: the same bytes twice, nothing left out, and each file works in a clean place."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from envcheck.core.table_pack import NAME
from tests.conftest import ROOT
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.images.image_parts import find_mirror, load_debian

MOST_MB = {"envcheck.pyz": 10.0, "envcheck_toolkit-*.whl": 2.5}
DEB, RPM = "envcheck-toolkit_*_all.deb", "envcheck-toolkit-*.noarch.rpm"
FORMS = ["envcheck_toolkit-*.tar.gz", DEB, RPM, "envcheck.cdx.json", "SHA256SUMS", *MOST_MB]
PACKAGED_FILES = {
    "/usr/bin/envcheck",
    "/usr/lib/envcheck/envcheck.pyz",
    "/usr/share/bash-completion/completions/envcheck",
    "/usr/share/doc/envcheck-toolkit/copyright",
    "/usr/share/doc/envcheck-toolkit/envcheck.cdx.json",
    "/usr/share/fish/vendor_completions.d/envcheck.fish",
    "/usr/share/man/man1/envcheck.1.gz",
    "/usr/share/man/man1/envcheck-doctor.1.gz",
}
pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of one release."""
    return make_release(tmp_path_factory.mktemp("dist"))


def make_release(folder: Path) -> Path:
    """Make a release of HEAD in `folder`."""
    done = subprocess.run([str(ROOT / ".ci" / "dist"), str(folder)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def find_file(folder: Path, pattern: str) -> Path:
    """Return the one file that matches."""
    (found,) = folder.glob(pattern)
    return found


def run_single_file(dist: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run envcheck.pyz with no other package in reach."""
    env = {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8", "COLUMNS": "100"}
    argv: Sequence[str] = [sys.executable, "-I", str(dist / "envcheck.pyz"), *words]
    return subprocess.run(argv, env=env, cwd=home, capture_output=True, text=True, timeout=300)


def test_all_forms(dist: Path) -> None:
    """Every form is made, and its sum is listed."""
    sums = (dist / "SHA256SUMS").read_text()

    assert all(find_file(dist, pattern) for pattern in FORMS)
    assert len(sums.splitlines()) == len(FORMS) - 1


@pytest.mark.parametrize("name", MOST_MB)
def test_sizes(dist: Path, name: str) -> None:
    """A form is as small as promised."""
    assert find_file(dist, name).stat().st_size < MOST_MB[name] * 1e6


def test_same_bytes_twice(dist: Path, tmp_path: Path) -> None:
    """A release can be checked by making it again."""
    assert (make_release(tmp_path) / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_wheel_is_complete(dist: Path) -> None:
    """Messages, tables and every other file of the repository are in the wheel, which is made from the sdist; what
    writes docs/ from a clone is not."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    packaged = {name for name in listed if name.split("/")[0] in ("envcheck", "probes", "installers", "launch")}

    wheel = zipfile.ZipFile(find_file(dist, "envcheck_toolkit-*.whl"))

    inside = set(wheel.namelist())
    left_out = {name for name in packaged if name.endswith(".po") or name.startswith("envcheck/cli/docs/")}
    tables = {name for name in packaged - left_out if name.endswith(".toml")}
    packs = [lzma.decompress(wheel.read(f"{name}/{NAME}")) for name in ("envcheck", "installers", "launch")]
    packed = [line.partition("\t")[0] for pack in packs for line in pack.decode().split("\n")]
    assert packaged - left_out - tables <= inside and not (left_out | tables) & inside
    assert packed == sorted(tables)
    assert any(name.endswith("zh_CN/LC_MESSAGES/envcheck.texts.xz") for name in inside)


def test_parts_list_names_the_libraries(dist: Path) -> None:
    """The SBOM is CycloneDX, names each direct dependency, and no path of the machine that made it."""
    text = (dist / "envcheck.cdx.json").read_text()
    document = json.loads(text)

    names = {part["name"].lower() for part in document["components"]}
    assert document["bomFormat"] == "CycloneDX"
    assert {"click", "docker", "psutil", "pexpect", "tabulate", "packaging"} <= names
    assert str(dist) not in text and str(Path.home()) not in text


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--version"], 0, "envcheck"),
        (["--lang", "zh", "--help"], 0, "用法"),
        (["simulate", "atlas-800t-a2", "--", "envcheck", "doctor", "--device", "npu"], 0, "8 × Huawei Ascend"),
        (
            ["plan", "--model", "21b", "--method", "lora", "--device", "nvidia", "--memory-gib", "80", "--cards", "1"],
            0,
            "GiB",
        ),
        (["train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--dry-run"], 0, "tiny"),
    ],
)
def test_single_file_works_alone(dist: Path, tmp_path: Path, words: list[str], code: int, expected: str) -> None:
    """The single file needs nothing but Python."""
    done = run_single_file(dist, tmp_path, *words)

    assert expected in done.stdout, done.stdout + done.stderr
    assert done.returncode == code, done.stdout + done.stderr


def test_image_runs_as_nobody(dist: Path, tmp_path: Path, engine: DockerEngine, python_image: str) -> None:
    """The Dockerfile makes an image that runs without root, network and capabilities."""
    (tmp_path / "dist").mkdir()
    shutil.copy(dist / "envcheck.pyz", tmp_path / "dist")
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    engine.run_docker("build", "-q", "-t", "envcheck-test", "--build-arg", f"BASE={python_image}", str(tmp_path))

    limits = ("--rm", "--network", "none", "--cap-drop", "ALL")
    done = engine.run_docker("run", *limits, "envcheck-test", "simulate", "h200x8", "--", "envcheck", "doctor")

    assert "8 × NVIDIA H200" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """A Debian with Python and without envcheck."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    root = tmp_path / "debian"
    layer = load_debian().file
    assert isinstance(layer, Path)
    with tarfile.open(layer) as tar:
        tar.extractall(root)
    return root


def run_in(root: Path, *argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in the folder as its root folder, with an environment that would mislead another Python."""
    env = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": "/nowhere"}
    return subprocess.run(["chroot", root, *argv], env=env, input=given, capture_output=True, text=True, timeout=300)


def assert_works(root: Path) -> None:
    """Run the commands that a new user of a package tries first."""
    table = run_in(root, "envcheck", "simulate", "h200x8", "--", "nvidia-smi")
    parsed = run_in(root, "envcheck", "parse", "nvidia-smi", given=table.stdout)
    job = ("--model", "21b", "--method", "lora", "--device", "nvidia", "--memory-gib", "80", "--cards", "1")
    planned = run_in(root, "envcheck", "plan", *job)
    doctor = run_in(root, "envcheck", "doctor", "--json")

    assert len(json.loads(parsed.stdout)["devices"]) == 8, table.stderr + parsed.stderr
    assert planned.returncode == 0 and "GiB" in planned.stdout, planned.stderr
    assert json.loads(doctor.stdout)["findings"], doctor.stderr


def test_deb_installs_on_a_clean_debian(dist: Path, debian: Path) -> None:
    """dpkg finds what it depends on; the command works, and nothing is left after its removal."""
    package = shutil.copy(find_file(dist, DEB), debian / "tmp")

    installed = run_in(debian, "dpkg", "--install", f"/tmp/{Path(package).name}")

    assert installed.returncode == 0, installed.stderr
    listed = set(run_in(debian, "dpkg", "--listfiles", "envcheck-toolkit").stdout.split("\n"))
    assert listed >= PACKAGED_FILES | {"/usr/share/zsh/vendor-completions/_envcheck"}
    assert "(>= 3.10)" in run_in(debian, "dpkg-query", "--show", "--showformat=${Depends}", "envcheck-toolkit").stdout
    assert_works(debian)
    assert run_in(debian, "dpkg", "--purge", "envcheck-toolkit").returncode == 0
    assert not (debian / "usr" / "lib" / "envcheck").exists()


def test_rpm_installs(dist: Path, debian: Path) -> None:
    """rpm unpacks it, and its command works; dependencies are only read, because this is no system of rpm's."""
    if not shutil.which("rpm"):
        pytest.skip("rpm is not installed: tests/system-packages.sh")
    package = find_file(dist, RPM)

    argv = ["rpm", "--root", debian, "--nodeps", "--nosignature", "--install", package]
    installed = subprocess.run(argv, capture_output=True, text=True)

    assert installed.returncode == 0, installed.stderr
    listed = subprocess.check_output(["rpm", "--query", "--list", "--package", package], text=True)
    assert set(listed.split("\n")) >= PACKAGED_FILES | {"/usr/share/zsh/site-functions/_envcheck"}
    required = subprocess.check_output(["rpm", "--query", "--requires", "--package", package], text=True)
    assert "python3 >= 3.10" in required
    assert_works(debian)


def test_single_file_works_on_aarch64(dist: Path, tmp_path: Path) -> None:
    """The single file has psutil for aarch64: its commands work with that Python, which an emulator runs."""
    emulator = shutil.which("qemu-aarch64-static")
    if not emulator or not shutil.which("mmdebstrap") or os.geteuid() != 0:
        pytest.skip("needs root, mmdebstrap and qemu-user-static: tests/system-packages.sh")
    root = tmp_path / "root"
    argv = ["mmdebstrap", "--arch=arm64", "--variant=extract", "--skip=check/qemu", "--include=python3", "bookworm"]
    made = subprocess.run([*argv, root, find_mirror()], capture_output=True, text=True, timeout=900)
    assert made.returncode == 0, made.stderr[-2000:]
    shutil.copy(emulator, root / "emulator")
    shutil.copy(dist / "envcheck.pyz", root)
    start = ("/emulator", "/usr/bin/python3.11", "-I", "/envcheck.pyz")

    doctor = run_in(root, *start, "doctor", "--json")
    explained = run_in(root, *start, "explain", "-", given="RuntimeError: CUDA out of memory\n")
    job = ("--model", "21b", "--method", "lora", "--device", "nvidia", "--memory-gib", "80", "--cards", "1")
    planned = run_in(root, *start, "plan", *job)

    assert json.loads(doctor.stdout)["findings"], doctor.stderr
    assert "memory.card" in explained.stdout, explained.stderr
    assert "GiB" in planned.stdout, planned.stderr
