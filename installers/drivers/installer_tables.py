"""Tables of driver installers: those for a device, the one that matches a file name, and what the vendor publishes."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.core.versions import is_at_least, is_same_release, sort_key
from envcheck.vendors import find_data_files
from installers.drivers.download_http import parse_file_name
from installers.drivers.patterns import match_parts
from installers.recipes.loader import load_drivers
from installers.recipes.recipe import DriverInstaller, PublishedDriverFile, Recipe


@dataclass(frozen=True)
class MatchedInstaller:
    """The installer that matches a file name, and the version and architecture in the name ("" if absent)."""

    driver: DriverInstaller
    version: str = ""
    architecture: str = ""


def list_drivers(recipe: Recipe) -> tuple[DriverInstaller, ...]:
    """Return the installers for the recipe's device; the recipe's own replace the vendor's of the same name."""
    found = {driver.name: driver for driver in load_vendor_drivers(recipe.device)}
    return tuple((found | {driver.name: driver for driver in recipe.drivers}).values())


def load_vendor_drivers(device: str) -> tuple[DriverInstaller, ...]:
    """Return the installers of the vendor's driver.toml; empty if the vendor has no such file."""
    files = {vendor.name: path for vendor, path in find_data_files("driver.toml")}
    return load_drivers(files[device]) if device in files else ()


def match_installer(drivers: Iterable[DriverInstaller], file_name: str) -> MatchedInstaller:
    """Return the installer that matches the file name.  UsageError, with the known patterns, if none does."""
    known = tuple(drivers)
    for driver in known:
        for pattern in driver.files:
            said = match_parts(pattern, file_name)
            if said is not None:
                return MatchedInstaller(driver, said.get("version", ""), said.get("architecture", ""))
    names = join(", ", dict.fromkeys(name for driver in known for name in _list_example_names(driver)))
    raise UsageError(
        _("{file_name} is not the name of an installer in this recipe", file_name=file_name[:120]),
        _(
            "keep the vendor's file name, or describe the installer in your own recipe; known names: {names}",
            names=names or _("none"),
        ),
    )


def _list_example_names(driver: DriverInstaller) -> tuple[str, ...]:
    """Return the names of the published files, else those that the patterns match, with words for the parts."""
    published = tuple(parse_file_name(file.url) for file in driver.published)
    return published or tuple(
        pattern.replace("{version}", "VERSION").replace("{architecture}", platform.machine())
        for pattern in driver.files
    )


def meets_minimum(version: str, minimum: str | None) -> bool | None:
    """Return whether the version suffices.  A release candidate of the same release counts (4.3.0.rc.9 for 4.3.0),
    because some vendors publish no other builds.
    """
    if not minimum or is_same_release(version, minimum):
        return True
    return is_at_least(version, minimum)


def find_published(driver: DriverInstaller, architecture: str, minimum: str | None) -> PublishedDriverFile | None:
    """Return the oldest published file that is new enough: the closest to what the recipe was tested with."""
    fitting = [
        file
        for file in driver.published
        if file.architecture in ("", architecture) and meets_minimum(file.version, minimum)
    ]
    return min(fitting, key=lambda file: sort_key(file.version) or (), default=None)
