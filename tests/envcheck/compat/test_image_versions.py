"""What published images contain, and whether the host's driver is recent enough for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.compat.image_versions import describe_contents, find_image_versions, judge_driver
from envcheck.core.facts import VendorFacts
from envcheck.core.model import Status
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe

IXUCA = "ccr-2vdh3abv-pub.cnc.bj.baidubce.com/device/paddle-ixuca:3.3.0"
SWIFT = "quay.io/ascend/ms-swift:v4.3.0-A2-py311-CANN9.0.0-ubuntu22.04"
CUDA = "ccr-2vdh3abv-pub.cnc.bj.baidubce.com/paddlepaddle/paddle:3.1.0-gpu-cuda12.6-cudnn9.5"
BOXED = [recipe for recipe in catalogue.load_all(None) if recipe.image]


@pytest.mark.parametrize(
    ("image", "vendor", "driver", "status", "seen"),
    [
        (IXUCA, "iluvatar", "4.3.0", Status.WARN, "the image is documented with driver 4.3.8; 4.3.0 is installed"),
        (IXUCA, "iluvatar", "4.3.8", Status.OK, "driver 4.3.8; the image is documented with 4.3.8"),
        (IXUCA, "iluvatar", "new", Status.UNKNOWN, "cannot read the driver's version 'new'"),
        (SWIFT, "npu", "24.1.0", Status.FAIL, "CANN 9.0.0 with driver 24.1.0: older than 25.0.RC1"),
        (SWIFT, "npu", "25.5.0", Status.OK, "CANN 9.0.0 with driver 25.5.0"),
        (CUDA, "nvidia", "515.65.01", Status.FAIL, "driver version is insufficient"),
    ],
)
def test_driver_is_judged_for_the_image(image: str, vendor: str, driver: str, status: Status, seen: str) -> None:
    """A driver older than the image's is a warning, one that a table lists as failing is a failure."""
    contents = find_image_versions(f"{image}@sha256:{'0' * 64}")
    assert contents is not None

    found = judge_driver(contents, VendorFacts(VENDORS[vendor]), driver, "envcheck provision --install-driver FILE.run")

    assert found.status is status
    assert seen in found.seen
    if status in (Status.WARN, Status.FAIL):
        assert found.remedy and found.remedy.commands[0].startswith("envcheck provision")


def test_an_image_without_a_documented_driver_is_not_judged() -> None:
    """Without any documented driver there is nothing to compare with."""
    contents = find_image_versions(IXUCA)
    assert contents is not None
    bare = replace(contents, holds={"python": "3.10"})

    assert judge_driver(bare, VendorFacts(VENDORS["iluvatar"]), "4.3.0", "").status is Status.NOT_APPLICABLE


def test_contents_have_a_source_and_a_date() -> None:
    """The plan shows the versions in the image and where they are documented."""
    contents = find_image_versions(IXUCA)
    assert contents is not None

    assert str(describe_contents(contents)) == (
        "driver 4.3.8, processor x86_64, Python 3.10 (PaddlePaddle/PaddleFleet, Iluvatar document, 2026-11)"
    )
    assert find_image_versions("registry.example.org/own:1") is None


@pytest.mark.parametrize("recipe", BOXED, ids=lambda recipe: recipe.name)
def test_the_image_of_each_recipe_is_listed(recipe: Recipe) -> None:
    """The contents of every image of our recipes are known, and its Python is one that the recipe takes."""
    from packaging.specifiers import SpecifierSet

    assert recipe.image
    for architecture, reference in recipe.image.references.items():
        contents = find_image_versions(reference)
        assert contents is not None, reference
        assert contents.holds.get("architecture", architecture) == architecture
        if python := contents.holds.get("python"):
            assert SpecifierSet(recipe.python).contains(f"{python}.1"), reference
