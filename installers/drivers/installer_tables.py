"""Which installers there are for a device, which one a file belongs to, and what the vendor publishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.versions import at_least, key, same_release
from envcheck.vendors import find_data_files
from installers.drivers.patterns import parts
from installers.recipes.recipe import Driver, DriverFile, Recipe
from installers.recipes.recipes_file import load_drivers


@dataclass(frozen=True)
class Named:
    """The installer that a file's name belongs to, and what the name says; "" where it says nothing."""

    driver: Driver
    version: str = ""
    architecture: str = ""


def drivers_of(recipe: Recipe) -> tuple[Driver, ...]:
    """The ready-made ones for the recipe's device; its own replace those of the same name."""
    found = {driver.name: driver for driver in vendor_drivers(recipe.device)}
    return tuple((found | {driver.name: driver for driver in recipe.drivers}).values())


def vendor_drivers(device: str) -> tuple[Driver, ...]:
    """Those of the vendor's driver.toml; none where it has no such file."""
    files = {vendor.name: path for vendor, path in find_data_files("driver.toml")}
    return load_drivers(files[device]) if device in files else ()


def named(drivers: Iterable[Driver], file_name: str) -> Named:
    """UsageError, with the names that are known, where none fits."""
    known = tuple(drivers)
    for driver in known:
        for pattern in driver.files:
            said = parts(pattern, file_name)
            if said is not None:
                return Named(driver, said.get("version", ""), said.get("architecture", ""))
    patterns = ", ".join(pattern for driver in known for pattern in driver.files)
    raise UsageError(
        f"{file_name[:120]}: not the name of an installer that this recipe knows",
        f"keep the vendor's name, or describe it in a recipe of yours; known are {patterns or 'none'}",
    )


def reaches(version: str, minimum: str | None) -> bool | None:
    """Whether the version is enough.  A candidate build of the very release counts (4.3.0.rc.9 for 4.3.0): vendors
    publish no other."""
    if not minimum or same_release(version, minimum):
        return True
    return at_least(version, minimum)


def published(driver: Driver, architecture: str, minimum: str | None) -> DriverFile | None:
    """The oldest published file that is new enough: the one nearest to what the recipe was tried with."""
    fitting = [
        file for file in driver.published if file.architecture in ("", architecture) and reaches(file.version, minimum)
    ]
    return min(fitting, key=lambda file: key(file.version) or (), default=None)
