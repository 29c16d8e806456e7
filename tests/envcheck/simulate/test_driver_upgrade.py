"""The driver of a simulated machine on which recipes are provisioned."""

from __future__ import annotations

import pytest

from envcheck.simulate.driver_upgrade import upgrade_driver
from envcheck.simulate.machine_file import load_machine


@pytest.mark.parametrize(
    ("minimums", "version"),
    (((), "24.1.rc1.b030"), (("23.0.3",), "24.1.rc1.b030"), (("25.2.0", "25.3.RC1", "23.0.3"), "25.3.rc1")),
)
def test_newest_minimum(minimums: tuple[str, ...], version: str) -> None:
    """The driver is the newest that a recipe requires; a newer one stays."""
    driver = upgrade_driver(load_machine("atlas-800t-a2"), minimums).driver

    assert driver is not None
    assert (driver.version, driver.toolkit) == (version, "8.0.RC1")


def test_a_machine_without_a_driver() -> None:
    """A server without accelerators has no driver to upgrade."""
    assert upgrade_driver(load_machine("cpu"), ("25.2.0",)).driver is None
