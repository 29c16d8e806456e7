"""What `--driver fetch` brings: the vendor's published file that the recipe names, into the cache."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from envcheck.collect import machine as machines
from envcheck.collect.machine import Machine
from envcheck.core.language import exact, label, say
from envcheck.core.model import Question
from envcheck.core.versions import compare
from installers.drivers import download, driver, host_facts, installer_tables
from installers.drivers.download import Fetched
from installers.drivers.download_http import name_of
from installers.drivers.installer_tables import reaches
from installers.output.plan_text import MARGIN, Screen, folded, row
from installers.recipes.recipe import DriverFile, Recipe
from installers.state.progress import Event


@dataclass(frozen=True)
class Fetching:
    """`already`: what is installed is enough, so that there is nothing to fetch."""

    title: str
    file: DriverFile
    minimum: str | None
    installed: str | None
    already: bool


def plan(recipe: Recipe, allow_downgrade: bool, machine: Machine | None = None) -> Fetching:
    """Which file it would be; UsageError where the vendor publishes none that fits."""
    at = machine or machines.here()
    file = driver.file_of(recipe, architecture(at))
    named = installer_tables.named(installer_tables.drivers_of(recipe), name_of(file.url)).driver
    there, minimum = host_facts.installed(named, at), driver.minimum_of(recipe, named)
    return Fetching(named.title, file, minimum, there, _enough(there, minimum, file.version) and not allow_downgrade)


def _enough(there: str | None, minimum: str | None, published: str) -> bool:
    """Where the recipe wants no version, one that is as new as the published one."""
    if not there:
        return False
    order = compare(there, published)
    return bool(reaches(there, minimum)) if minimum else order is not None and order >= 0


def as_text(found: Fetching, recipe: str) -> str:
    """The plan for people."""
    here = say(driver.standing(found.installed, found.minimum))
    first = say("{} for {}, from {}").format(f"{exact(found.title)} {found.file.version}", recipe, found.file.url)
    if found.already:
        return folded((first, row(label("already so"), here), f"  {say('nothing to do')}"))
    known = "published" if found.file.sha256 or found.file.sha256_url else "not published: you are asked"
    fetching = say(f"fetch it into {download.cache()}, resumed where an earlier run stopped")
    lines = (
        first,
        row(say("step {}").format(1), fetching),
        f"{MARGIN}{say('why: {}').format(here)}",
        f"{MARGIN}{say(f'its SHA-256: {known}')}",
        row(say("step {}").format(2), say("look at it, show the plan of its installation, and ask")),
    )
    return folded(lines)


def fetch(found: Fetching, sha256: str) -> Fetched:
    """The file, from the cache or the vendor; `sha256` is a person's own, "" where there is none."""
    with Screen() as screen:
        screen.show(Event("begin", f"fetch {name_of(found.file.url)}"))
        fetched = driver.fetch(
            found.file,
            locked_sha256=sha256,
            tell=lambda done, total: screen.show(Event("bytes", name_of(found.file.url), done, total)),
        )
        screen.show(Event("end", f"{fetched.path}, SHA-256 {fetched.sha256}"))
    return fetched


def architecture(machine: Machine | None = None) -> str:
    """That of the machine which is asked; a simulated one may have another."""
    try:
        said = json.loads((machine or machines.here())(Question("ask", ("host",), host_facts.QUESTION_S)).out or "{}")
    except ValueError:
        said = {}
    return str(said.get("architecture") or platform.machine()) if isinstance(said, dict) else platform.machine()
