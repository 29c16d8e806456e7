"""`envcheck provision` without write permission or with too little disk space."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers.provision_helpers import (
    ProvisionCommand,
    copy_home,
    make_provisioned,
    serve_index,
    stock_index,
    write_recipe,
    write_wheel,
)

pytestmark = pytest.mark.real


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ProvisionCommand]:
    stock_index(tmp_path / "index")
    with serve_index(tmp_path / "index") as server:
        yield ProvisionCommand(tmp_path, server)


@pytest.fixture
def ready(tmp_path_factory: pytest.TempPathFactory, machine: ProvisionCommand) -> ProvisionCommand:
    """A machine with `little` provisioned."""
    copy_home(make_provisioned(tmp_path_factory.mktemp("made")), machine)
    return machine


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 110 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=110m", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small file system can be mounted by root only, and not in every container")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_unwritable(small_disk: Path, machine: ProvisionCommand) -> None:
    """A read-only place, also for root, is reported with how to choose another one."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = machine.run_command("--into", str(small_disk / "venv"), "--yes")

    assert done.returncode == 2
    assert "permission denied" in done.stderr
    assert "choose another folder with --into" in done.stderr


def test_full_disk(small_disk: Path, ready: ProvisionCommand, tmp_path: Path) -> None:
    """A disk that fills up during pip is reported; with free space the next run repairs."""
    write_wheel(tmp_path / "index", "zeros", "1.0", {"zeros/data": "0" * 150_000_000})
    write_recipe(ready.recipes, "alpha ==1.0", "beta <2", "zeros")
    venv = small_disk / "venv"
    shutil.copytree(ready.environment_folder, venv, symlinks=True)
    first = ready.run_command("--into", str(venv), "--yes")
    subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True)
    second = ready.run_command("--into", str(venv), "--yes")

    assert first.returncode == 4
    assert "no space left on the disk" in first.stderr
    assert "Traceback" not in first.stderr
    assert second.returncode == 0, second.stderr
    assert ready.read_versions(venv) == "1.0 1.5"


def test_too_small_a_disk_is_seen_beforehand(small_disk: Path, machine: ProvisionCommand) -> None:
    """If the disk space is insufficient nothing is started: exit code 1, with the needed and the free space."""
    write_recipe(machine.recipes, "paddlepaddle ==3.1.0")
    done = machine.run_command("--into", str(small_disk / "venv"), "--yes")

    assert done.returncode == 1
    assert "not enough disk space at" in done.stderr
    assert list(small_disk.iterdir()) == []
