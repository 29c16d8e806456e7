"""Locks in the journal's folder: the recipe's own, and the one of a driver that no recipe was named for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core import paths
from installers.bundle import recipe_locks
from installers.locks import lockfile
from installers.locks.lockfile import LockedDriverFile
from installers.recipes import catalogue
from installers.steps.proof_record import find_pulled_digest

DIGEST, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
DRIVER = LockedDriverFile("corex-driver-4.3.8.run", "3" * 64, "4.3.8")
PACKAGED = catalogue.find_recipe(catalogue.load_all(None), "ernie-21b-iluvatar")
BARE = replace(PACKAGED, packages=())


def test_a_driver_of_no_named_recipe_is_recorded_for_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is in the folder of the device's records, and a recipe's exported lock lists the file."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    machine, own = paths.driver_folder("iluvatar"), paths.environment_folder(BARE.name)

    recipe_locks.add_driver(machine, BARE, DRIVER)
    recipe_locks.export_lock(own, BARE, tmp_path / "export.lock")

    assert recipe_locks.lock_path(machine, BARE.name) == tmp_path / "drivers" / "iluvatar" / lockfile.NAME
    assert not own.exists()
    assert lockfile.load_lock(tmp_path / "export.lock").driver == DRIVER


def test_the_driver_of_a_named_recipe_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe whose lock lists a driver keeps it."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    own, mine = paths.environment_folder(BARE.name), replace(DRIVER, version="4.3.0")

    recipe_locks.add_driver(paths.driver_folder("iluvatar"), BARE, DRIVER)
    recipe_locks.add_driver(own, BARE, mine)
    recipe_locks.export_lock(own, BARE, tmp_path / "export.lock")

    assert lockfile.load_lock(tmp_path / "export.lock").driver == mine


@pytest.mark.parametrize(
    ("pulled", "digest"),
    [
        ([f"registry.example.org/device/paddle-ixuca@{DIGEST}"], DIGEST),
        ([f"mirror.example.org:5000/hub/device/paddle-ixuca@{DIGEST}"], DIGEST),
        ([f"mirror.example.org/device/paddle-npu@{OTHER}", f"mirror.example.org/device/paddle-ixuca@{DIGEST}"], DIGEST),
        ([f"mirror.example.org/own-paddle-ixuca@{OTHER}"], ""),
        ([], ""),
    ],
)
def test_an_image_that_was_there_is_locked_by_digest(pulled: list[str], digest: str) -> None:
    """The digest of an earlier pull of the same repository is known to the engine; others may be other layers."""
    assert find_pulled_digest(pulled, "registry.example.org/device/paddle-ixuca:3.3.0") == digest
