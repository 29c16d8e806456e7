"""Accelerators that are not there: the stand-in device plugin, compiled against the header in paddle's wheel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_device.cc")


def compiled(environment: Path, device_type: str, folder: Path, source: Path = SOURCE) -> Path:
    """A folder for CUSTOM_DEVICE_ROOT that holds the plugin for devices of this type."""
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++: the stand-in device plugin cannot be compiled (apt-get install g++)")
    (headers,) = environment.glob("lib/python3*/site-packages/paddle/include")
    argv = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f'-DDEVICE_TYPE="{device_type}"', f"-I{headers}"]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([*argv, str(source), "-o", str(folder / "libfake.so")], check=True)
    return folder
