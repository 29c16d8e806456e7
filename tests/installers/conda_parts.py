"""A conda channel on this machine with a real Python, and a program that solves and installs from it."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

LEFT_OUT = ("test", "idlelib", "site-packages", "__pycache__", "tkinter")
# rattler's solver and installer in place of the program, which no package index has.
PROGRAM = """
import asyncio, os, sys
import rattler
assert sys.argv[1:4] == ["create", "--yes", "--prefix"], sys.argv
prefix, specs = sys.argv[4], sys.argv[5:]
async def create():
    channel = rattler.Channel(os.environ["MAMBA_CHANNEL_ALIAS"] + "/conda-forge")
    records = await rattler.solve([channel], specs, platforms=["linux-64", "noarch"])
    await rattler.install(records, prefix, cache_dir=os.environ["HOME"] + "/rattler", show_progress=False)
asyncio.run(create())
"""


def write_program(path: Path, folder: Path) -> None:
    """Write the program at `path`; its solver goes into an environment in `folder`."""
    subprocess.run([sys.executable, "-m", "venv", folder / "solver"], check=True)
    done = subprocess.run([folder / "solver/bin/pip", "install", "-q", "py-rattler"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"py-rattler cannot be installed here: {done.stderr[-200:]}")
    (folder / "create.py").write_text(PROGRAM)
    path.write_text(f'#!/bin/sh\nexec {folder}/solver/bin/python {folder}/create.py "$@"\n')
    path.chmod(0o755)


def write_channel(folder: Path, python: Path, minor: str) -> None:
    """Write the channel `conda-forge` with this Python, and with a pip that brings nothing of its own."""
    home = python.resolve().parents[1]
    library = home / "lib" / f"python{minor}"
    files = [home / "bin" / f"python{minor}", *(home / "lib").glob("libpython*.so*")]
    files += [path for path in library.rglob("*") if path.is_file() and not set(path.parts) & set(LEFT_OUT)]
    _write_package(folder / "conda-forge", "python", f"{minor}.99", lambda name: _add_python(home, files, minor, name))
    _write_package(folder / "conda-forge", "pip", "24.0", lambda packed: [], depends=("python",))


def _add_python(home: Path, files: list[Path], minor: str, packed: tarfile.TarFile) -> list[str]:
    names = [str(path.relative_to(home)) for path in files]
    for path, name in zip(files, names, strict=True):
        packed.add(path.resolve(), name)
    link = tarfile.TarInfo("bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, f"python{minor}"
    packed.addfile(link)
    return [*names, "bin/python3"]


def _write_package(
    channel: Path,
    name: str,
    version: str,
    add_files: Callable[[tarfile.TarFile], list[str]],
    depends: tuple[str, ...] = (),
) -> None:
    about: dict[str, Any] = {"name": name, "version": version, "build": "0", "build_number": 0, "subdir": "linux-64"}
    about |= {"depends": list(depends), "arch": "x86_64", "platform": "linux"}
    folder = channel / "linux-64"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-0.tar.bz2"
    with tarfile.open(path, "w:bz2", compresslevel=1) as packed:
        names = add_files(packed)
        _add_text(packed, "info/index.json", json.dumps(about))
        _add_text(packed, "info/files", "\n".join(names) + "\n")
    content = path.read_bytes()
    known = {"sha256": hashlib.sha256(content).hexdigest(), "md5": hashlib.md5(content).hexdigest()}
    _add_to_index(folder / "repodata.json", path.name, {**about, **known, "size": len(content)})
    _add_to_index(channel / "noarch" / "repodata.json", "", {})


def _add_text(packed: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text)
    packed.addfile(info, io.BytesIO(text.encode()))


def _add_to_index(path: Path, name: str, record: Mapping[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {"packages": {}, "packages.conda": {}}
    known["packages"] |= {name: record} if name else {}
    path.write_text(json.dumps(known))
