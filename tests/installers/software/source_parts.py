"""Projects to build: a C extension for gcc, a setuptools project for an editable clone, a source archive."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.installers.provision_helpers import write_page

HEADERS = Path(sysconfig.get_paths()["include"]) / "Python.h"
# An archive and a clone with their own build backend, so that no index is needed.
BACKEND = """
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "gamma-1.0-py3-none-any.whl", "gamma-1.0.dist-info"
    files = {"gamma.py": "made = True\\n", info + "/METADATA": "Metadata-Version: 2.1\\nName: gamma\\nVersion: 1.0\\n",
             info + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    files[info + "/RECORD"] = "".join(path + ",,\\n" for path in [*files, info + "/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return name
"""
IN_TREE = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
# The usual project: setuptools and its requirements from the index.
SETUPTOOLS = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "worker"\nversion = "0.1"\ndependencies = ["delta>=1"]\n'
    '[tool.setuptools]\npy-modules = ["worker"]\n',
    "worker.py": "import delta\nsays = delta.__version__\n",
}


def require_gcc() -> None:
    if not all(map(shutil.which, ("git", "gcc"))) or not HEADERS.exists():
        pytest.skip("git, gcc or Python's headers are missing")


def make_project(folder: Path, files: Mapping[str, str]) -> str:
    """Create a repository with one commit, tagged v1; return the commit."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def write_source_archive(index: Path) -> Path:
    """Write gamma 1.0 as a source archive only."""
    folder = index / "gamma"
    folder.mkdir(parents=True)
    path = folder / "gamma-1.0.tar.gz"
    files = {"backend.py": BACKEND, "pyproject.toml": IN_TREE, "gamma.py": "", "PKG-INFO": PKG_INFO}
    with tarfile.open(path, "w:gz") as packed:
        for name, text in files.items():
            info = tarfile.TarInfo(f"gamma-1.0/{name}")
            info.size = len(text)
            packed.addfile(info, io.BytesIO(text.encode()))
    write_page(folder)
    return path


PKG_INFO = "Metadata-Version: 2.1\nName: gamma\nVersion: 1.0\n"


def copy_setuptools(index: Path) -> None:
    """Copy the real setuptools into the test index."""
    for name in ("setuptools", "wheel"):
        folder = index / name
        folder.mkdir(parents=True)
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", f"--dest={folder}"]
        if subprocess.run([*argv, name], capture_output=True).returncode:
            pytest.skip("no index to fetch setuptools from")
        write_page(folder)
