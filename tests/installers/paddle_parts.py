"""A loopback index with the real paddlepaddle, and test plugins that simulate cards."""

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

from tests.launch.fake_cards import compile_plugin

CACHE = Path(os.environ.get("ENVCHECK_TEST_CACHE") or Path(__file__).parents[1] / ".cache").absolute()
PADDLE = "paddlepaddle==3.1.0"
NUMPY = "numpy>=1.21,<2.4"
# Paddle and a plugin of ours in a container: a recipe without its jobs, and a job of it.
BOXED = """
name = "{recipe}"
title = "Paddle and its plugin in a container"
device = "{device}"
framework = "envcheck"
models = ["{model}"]
source = "a test"
interpreter = "python3"
python = ">=3.9"
workdir = "/"
[hardware]
product = "cards that are not there"
source = "a test"
cards = {cards}
[image.references]
x86_64 = "{image}"
[container]
name = "{container}"
network = "host"
privileged = true
shm_size = "1g"
environment = {{ PIP_BREAK_SYSTEM_PACKAGES = "1" }}
source = "a test"
[environment]
FAKE_DEVICES = "16"
FLAGS_use_stride_kernel = "0"
{environment}
[[packages]]
name = "numpy"
specifier = ">=1.21,<2.4"
index = "{index}"
[[packages]]
name = "paddlepaddle"
specifier = "==3.1.0"
index = "{index}"
[[packages]]
name = "{plugin}"
specifier = "==3.1.0"
index = "{index}"
"""
LORA = """
[[jobs]]
method = "lora"
title = "LoRA in two processes"
source = "a test"
processes = 2
launcher = [
  "{python}", "-m", "paddle.distributed.launch", "--npus", "{devices}", "--log_dir", "{log_dir}", "{program}",
]
arguments = [
  "--device", "npu", "--steps", "5",
  "--output", "{output}", "--batch", "2", "--seq", "16", "--data", "{data}",
]
steps = { max = 5 }
data = ["{data}"]
outputs = ["{output}"]
"""
TWO_NPUS = """
OMP_NUM_THREADS = "1"
PADDLE_XCCL_BACKEND = "npu"
HCCL_IF_BASE_PORT = "21000"
"""


def make_two_npu_recipe(model: str, image: str, container: str, index: str, environment: str = "") -> str:
    """Return the recipe boxed-MODEL, whose job `lora` uses two NPUs."""
    names = {"recipe": f"boxed-{model}", "model": model, "image": image, "container": container, "index": index}
    more = {"device": "npu", "cards": 2, "plugin": "paddle-custom-npu", "environment": TWO_NPUS + environment}
    return BOXED.format(**names, **more) + LORA


def fetch_wheels(python: str) -> Path:
    """A folder with paddle and its dependencies for this Python (3.11), fetched once from the configured index."""
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


def make_index(folder: Path, python: str) -> Path:
    """Create a simple index of those wheels, by links."""
    for found in fetch_wheels(python).glob("*.whl"):
        place = folder / found.name.partition("-")[0].replace("_", "-").lower()
        place.mkdir(parents=True, exist_ok=True)
        (place / found.name).symlink_to(found)
        (place / "index.html").write_text(f'<html><a href="{found.name}">{found.name}</a>')
    return folder


def write_plugin_wheel(
    folder: Path,
    name: str,
    version: str,
    environment: Path,
    device_type: str,
    scratch: Path,
    needed: Path | None = None,
) -> None:
    """Write a wheel with the plugin's name; paddle loads the plugins in paddle_custom_device on import.

    `needed` is a library of the vendor that the plugin is linked with.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    (library,) = compile_plugin(environment, device_type, scratch, library=needed).glob("*.so")
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files: Mapping[str, bytes] = {
        f"paddle_custom_device/lib{name}.so": library.read_bytes(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = (
        "".join(f"{path},{_hash_record(data)},{len(data)}\n" for path, data in files.items()) + f"{info}/RECORD,,\n"
    )
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    wheel = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(path, data)
    (place / "index.html").write_text(f'<html><a href="{wheel}">{wheel}</a>')


def _hash_record(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
