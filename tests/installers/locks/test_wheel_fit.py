"""Wheels of a lock against the Python and glibc of an image."""

from __future__ import annotations

import dataclasses

import pytest

from envcheck.compat import image_versions, table_loader
from installers.bundle.sources import Supply
from installers.images.docker_engine import DockerEngine
from installers.locks import wheel_fit
from installers.locks.lockfile import SCHEMA, Lock, LockedWheel
from installers.steps.container_state import ContainerState
from installers.steps.target_state import DesiredState
from tests.installers.steps import test_step_kinds

IMAGE = {"python": "3.11", "glibc": "2.31"}


def make_wheel(tags: str) -> LockedWheel:
    return LockedWheel("some", "1.0", f"some-1.0-{tags}.whl", "0" * 64)


@pytest.mark.parametrize(
    ("tags", "expected"),
    (
        ("py3-none-any", ""),
        ("py2.py3-none-any", ""),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", ""),
        ("cp38-abi3-manylinux_2_28_x86_64", ""),
        ("cp311-cp311-linux_x86_64", ""),
        ("cp311-cp311-manylinux_2_31_x86_64", ""),
        ("cp310-cp310-manylinux2014_x86_64", "is not for Python 3.11"),
        ("cp312-abi3-manylinux2014_x86_64", "is not for Python 3.11"),
        ("py312-none-any", "is not for Python 3.11"),
        ("py2-none-any", "is not for Python 3.11"),
        ("cp311-cp311-musllinux_1_2_x86_64", "is not for Linux with glibc"),
        ("py3-none-macosx_11_0_arm64", "is not for Linux with glibc"),
        ("cp311-cp311-manylinux_2_17_x86_64.musllinux_1_1_x86_64", ""),
        ("cp311-cp311-manylinux_2_34_x86_64.musllinux_1_1_x86_64", "needs a newer glibc than 2.31"),
        ("cp311-cp311-manylinux_2_34_x86_64", "needs a newer glibc than 2.31"),
    ),
)
def test_tags(tags: str, expected: str) -> None:
    """The tags of the file name decide, by the rules of packaging; an undocumented version accepts each wheel."""
    assert expected in str(wheel_fit.explain_misfit([make_wheel(tags)], IMAGE))
    assert bool(wheel_fit.explain_misfit([make_wheel(tags)], IMAGE)) == bool(expected)
    assert not wheel_fit.explain_misfit([make_wheel(tags)], {})


@pytest.mark.parametrize(
    ("python", "tags", "expected"),
    (
        (">=3.8", "py3-none-any", []),
        (">=3.99", "py3-none-any", ["requires Python >=3.99; the image contains"]),
        (">=3.8", "cp37-cp37m-manylinux1_x86_64", ["of the lock is not for Python"]),
    ),
)
def test_an_obstacle_before_the_pull(python: str, tags: str, expected: list[str]) -> None:
    """The plan judges recipe and lock against the documented contents, without an engine."""
    image = next(each for each in table_loader.own_version_table().images if "python" in each.holds)
    recipe = dataclasses.replace(test_step_kinds.RECIPE, python=python)
    lock = Lock(SCHEMA, "1", recipe.name, "0" * 64, "x86_64", wheels=(make_wheel(tags),))
    desired = DesiredState(recipe, Supply(test_step_kinds.RECIPE, lock), image=image.references[0])
    state = ContainerState(DockerEngine(""), None, "python3", test_step_kinds.DRAWN)
    found = [str(obstacle.why) for obstacle in state.find_obstacles(desired, ())]

    assert image_versions.find_image_versions(image.references[0]) is image
    assert [any(words in why for why in found) for words in expected] == [True] * len(expected)
    assert bool(expected) == any("the image contains" in why for why in found)
