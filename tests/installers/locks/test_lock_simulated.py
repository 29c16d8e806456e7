"""A lock file on a simulated machine is checked against that machine's architecture."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from installers.locks import lockfile
from installers.locks.lockfile import LockedImage
from installers.recipes import catalogue
from tests.installers.locks.test_lockfile import LOCK

DIGEST = "sha256:" + 64 * "a"


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "taken"), (("aarch64", True), ("x86_64", False)))
def test_processor_of_the_simulated_machine(architecture: str, taken: bool, tmp_path: Path) -> None:
    """On a simulated Atlas 800T A2 (aarch64), a lock for aarch64 is planned and any other one is refused."""
    recipe = next(each for each in catalogue.load_all() if each.name == "ernie-0.3b-npu")
    image = LockedImage(f"registry:5000/device/paddle-npu@{DIGEST}", DIGEST)
    made = replace(
        LOCK,
        recipe=recipe.name,
        recipe_sha256=lockfile.hash_recipe(recipe),
        architecture=architecture,
        image=image,
    )
    lockfile.write_lock(tmp_path / "envcheck.lock", made)
    asked = ("provision", "--recipe", recipe.name, "--locked", str(tmp_path / "envcheck.lock"), "--dry-run")
    envcheck = (sys.executable, "-m", "envcheck")
    done = subprocess.run(
        (*envcheck, "simulate", "atlas-800t-a2", "--", *envcheck, *asked), capture_output=True, text=True, timeout=120
    )

    refused = f"for another architecture: expected aarch64, got {architecture}"
    assert (refused in done.stderr) is not taken, done.stdout + done.stderr
    assert (DIGEST in done.stdout) is taken, done.stdout + done.stderr
