"""envcheck provision where nobody may write, or there is too little room."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers.provision_helpers import Machine, copied, provisioned, recipe_file, serving, stock, wheel

pytestmark = pytest.mark.real


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    stock(tmp_path / "index")
    with serving(tmp_path / "index") as server:
        yield Machine(tmp_path, server)


@pytest.fixture
def ready(tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Machine:
    """A machine on which `little` is ready."""
    copied(provisioned(tmp_path_factory.mktemp("made")), machine)
    return machine


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 110 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=110m", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small file system can be mounted by root only, and not in every container")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_unwritable(small_disk: Path, machine: Machine) -> None:
    """Where nobody may write, root included, it says so, and how to choose another place."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = machine.run("--into", str(small_disk / "venv"), "--yes")

    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "choose another --into" in done.stderr


def test_full_disk(small_disk: Path, ready: Machine, tmp_path: Path) -> None:
    """A disk that fills up under pip is called full; once there is room, the next run repairs."""
    wheel(tmp_path / "index", "zeros", "1.0", {"zeros/data": "0" * 150_000_000})
    recipe_file(ready.recipes, "alpha ==1.0", "beta <2", "zeros")
    venv = small_disk / "venv"
    shutil.copytree(ready.folder, venv, symlinks=True)
    first = ready.run("--into", str(venv), "--yes")
    subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True)
    second = ready.run("--into", str(venv), "--yes")

    assert first.returncode == 4
    assert "the disk is full" in first.stderr
    assert "Traceback" not in first.stderr
    assert second.returncode == 0, second.stderr
    assert ready.versions(venv) == "1.0 1.5"


def test_too_small_a_disk_is_seen_beforehand(small_disk: Path, machine: Machine) -> None:
    """What does not fit is not begun: exit 1, with how much is free and how much is needed."""
    recipe_file(machine.recipes, "paddlepaddle ==3.1.0")
    done = machine.run("--into", str(small_disk / "venv"), "--yes")

    assert done.returncode == 1
    assert "are needed" in done.stderr
    assert list(small_disk.iterdir()) == []
