"""For the tests of doctor --deep: a plugin whose devices misbehave, a door to a real paddle or torch, small sizes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from envcheck.cli.commands import find_python
from envcheck.core import process as runner
from envcheck.deep.cards import Card, Chosen, pairs
from envcheck.deep.interpreter import Door, Local, Sizes
from installers.targets.target import VenvTarget
from installers.verify.verify_cards import KITS

SOURCE = Path(__file__).with_name("faulty_device.cc")
SMALL = Sizes(budget_s=0.05, patience_s=60.0, rows=(64, 128), mib=(1, 2))
HASTY = replace(SMALL, patience_s=12.0, grace_s=2.0)  # for who hangs


def faulty(environment: Path, device_type: str, folder: Path) -> Path:
    """A folder for CUSTOM_DEVICE_ROOT that holds the plugin."""
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++: the stand-in device plugin cannot be compiled (apt-get install g++)")
    (headers,) = environment.glob("lib/python3*/site-packages/paddle/include")
    argv = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f'-DDEVICE_TYPE="{device_type}"', f"-I{headers}"]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([*argv, str(SOURCE), "-o", str(folder / "libfake.so")], check=True)
    return folder


def door(environment: Path, kit: str, vendor: str, own: Path, more: Mapping[str, str] | None = None) -> Door:
    """As doctor makes one for a virtual environment without a recipe."""
    python = str(environment / "bin" / "python")
    found = next(each for each in KITS if each.name == kit)
    env = find_python.surroundings(VenvTarget(environment), found, vendor) | dict(more or {})
    own.mkdir(parents=True, exist_ok=True)
    return find_python.made(vendor, found, None, Local(python, own), env, runner.end_what_runs)


def cards(vendor: str, count: int, memory_mib: int = 3) -> Chosen:
    """So many idle cards of no known kind."""
    some = tuple(Card(n, str(n), "a card", memory_mib=memory_mib) for n in range(count))
    return Chosen(vendor, some, pairs(None, range(count), range(count)))


def left(mark: str | os.PathLike[str]) -> list[str]:
    """Processes whose command line names the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(mark) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(line)
    return found
