"""`make dist`: the same bytes twice, nothing left out, and each file works in a clean place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.installers.images.engine_parts import DockerEngine

MOST_MB = {"envcheck.pyz": 10.0, "envcheck_toolkit-*.whl": 2.6}
FORMS = ["envcheck_toolkit-*.tar.gz", "envcheck.cdx.json", "SHA256SUMS", *MOST_MB]
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
    """Every form is made, in its size, and its sum is listed."""
    sums = (dist / "SHA256SUMS").read_text()

    assert all(find_file(dist, pattern) for pattern in FORMS)
    assert len(sums.splitlines()) == len(FORMS) - 1
    assert all(find_file(dist, name).stat().st_size < most * 1e6 for name, most in MOST_MB.items())


def test_same_bytes_twice(dist: Path, tmp_path: Path) -> None:
    """A release can be checked by making it again."""
    assert (make_release(tmp_path) / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_wheel_is_complete(dist: Path) -> None:
    """Messages, man pages and every data file of the repository are in the wheel, which is made from the sdist."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    packaged = {name for name in listed if name.split("/")[0] in ("envcheck", "probes", "installers", "launch")}

    inside = set(zipfile.ZipFile(find_file(dist, "envcheck_toolkit-*.whl")).namelist())

    assert {name for name in packaged if not name.endswith(".po")} <= inside
    assert any(name.endswith("zh_CN/LC_MESSAGES/envcheck.mo.xz") for name in inside)
    assert any(name.endswith("share/man/man1/envcheck.1") for name in inside)


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
