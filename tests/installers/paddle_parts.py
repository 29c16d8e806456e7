"""An index on loopback with the real paddlepaddle in it, and beside it plugins of ours for cards that are not there."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.launch.fake_cards import compiled

CACHE = Path(os.environ.get("ENVCHECK_TEST_CACHE") or Path(__file__).parents[1] / ".cache").absolute()
PADDLE = "paddlepaddle==3.1.0"
NUMPY = "numpy>=1.21,<2.4"


def wheels(python: str) -> Path:
    """A folder with paddle and all that it needs, for this Python (3.11), fetched once from the configured index."""
    folder = CACHE / f"wheels-{python}"
    if not (folder / "whole").exists():
        wanted = ("download", "--quiet", "--only-binary=:all:", f"--python-version={python}", f"--dest={folder}")
        done = subprocess.run(
            [sys.executable, "-m", "pip", *wanted, PADDLE, NUMPY], capture_output=True, text=True, timeout=900
        )
        if done.returncode != 0:
            pytest.fail(f"paddle's wheels could not be fetched:\n{done.stderr[-2000:]}", pytrace=False)
        (folder / "whole").touch()
    return folder


def index(folder: Path, python: str) -> Path:
    """A simple index of those wheels, by links to them."""
    for found in wheels(python).glob("*.whl"):
        place = folder / found.name.partition("-")[0].replace("_", "-").lower()
        place.mkdir(parents=True, exist_ok=True)
        (place / found.name).symlink_to(found)
        (place / "index.html").write_text(f'<html><a href="{found.name}">{found.name}</a>')
    return folder


def plugin_wheel(folder: Path, name: str, version: str, environment: Path, device_type: str, scratch: Path) -> None:
    """A wheel of the plugin's name; paddle loads what lies in paddle_custom_device when it is imported."""
    scratch.mkdir(parents=True, exist_ok=True)
    (library,) = compiled(environment, device_type, scratch).glob("*.so")
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files: Mapping[str, bytes] = {
        f"paddle_custom_device/lib{name}.so": library.read_bytes(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_sum(data)},{len(data)}\n" for path, data in files.items()) + f"{info}/RECORD,,\n"
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    wheel = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(path, data)
    (place / "index.html").write_text(f'<html><a href="{wheel}">{wheel}</a>')


def _sum(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
