"""Simulated accelerators: a device plugin compiled against the header in paddle's wheel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_device.cc")


def compile_plugin(
    environment: Path, device_type: str, folder: Path, source: Path = SOURCE, library: Path | None = None
) -> Path:
    """Build the plugin for this device type; return the folder for CUSTOM_DEVICE_ROOT.

    With `library` it loads only where the loader finds that one, as plugins with the vendor's libraries do.
    """
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++: the stand-in device plugin cannot be compiled (apt-get install g++)")
    (headers,) = environment.glob("lib/python3*/site-packages/paddle/include")
    argv = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f'-DDEVICE_TYPE="{device_type}"', f"-I{headers}"]
    folder.mkdir(parents=True, exist_ok=True)
    needed = ["-Wl,--no-as-needed", f"-L{library.parent}", f"-l:{library.name}"] if library else []
    subprocess.run([*argv, str(source), "-o", str(folder / "libfake.so"), *needed], check=True)
    return folder
