"""The compiled part of psutil, the only library in envcheck.pyz that is not pure Python, for each CPU architecture."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import sys
import tempfile
import zipfile
from pathlib import Path

from envcheck.core import process
from envcheck.payload import cache

FILE = "_psutil_linux.abi3.so"
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine, in elf.h
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux2010", "manylinux_2_12", "manylinux_2_28")
DEADLINE_S = 60.0


def find_package() -> Path:
    """Return the folder of the installed psutil; envcheck does not start without it."""
    found = importlib.util.find_spec("psutil")
    assert found and found.origin
    return Path(found.origin).parent


def find_library(machine: str, fetch: bool = False) -> bytes | None:
    """Return psutil's compiled library for an architecture, in the version installed here; None if it is not
    available.

    `fetch`: download it from the package index if it is neither installed nor cached.
    """
    name = f"psutil-{_get_version()}-{machine}"
    if machine == platform.machine() and (own := find_package() / FILE).is_file():
        return own.read_bytes()
    if (known := cache.read_entry(name)) is not None:
        return known
    found = _download_library(machine) if fetch else None
    if found is not None:
        cache.write_entry(name, found)
    return found


def is_built_for(machine: str, data: bytes) -> bool:
    """Return whether the data is an ELF file for this architecture."""
    return data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == ELF_MACHINES[machine]


def _get_version() -> str:
    import psutil

    return psutil.__version__


def _download_library(machine: str) -> bytes | None:
    """Download the wheel with pip; None without pip, without an index, or if the index has no such file."""
    with tempfile.TemporaryDirectory(prefix="envcheck-") as folder:
        tags = (f"--platform={name}_{machine}" for name in PLATFORMS)
        argv = (sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                "--implementation=cp", "--abi=abi3", "--python-version=3.10", *tags,
                f"--dest={folder}", f"psutil=={_get_version()}")  # fmt: skip
        env = {"PIP_DEFAULT_TIMEOUT": "10", "PIP_RETRIES": "1", **os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        process.run_command(argv, timeout_s=DEADLINE_S, env=env)
        with contextlib.suppress(OSError, KeyError, StopIteration, zipfile.BadZipFile):
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                data = wheel.read(f"psutil/{FILE}")
            return data if is_built_for(machine, data) else None
    return None
