"""How a driver's installation looks: the plan as text or JSON values, and the installer's own words as they come."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from envcheck.core.errors import outcome
from envcheck.core.language import exact, label
from envcheck.core.language import say as spoken
from envcheck.core.secrets import redact
from envcheck.core.signals import unheard
from envcheck.core.units import MIB, mib
from envcheck.core.version import SCHEMA_VERSION
from installers.drivers import driver
from installers.drivers.dialogue import clean
from installers.drivers.driver import DriverState
from installers.output.plan_text import MARGIN, folded, row

UNTOLD = " could not be told"  # the end of a doubt, which the heading says already
SHOWN = 2000  # lines of an installer's words; the journal has them all
OPEN = 1 << 16  # characters of a line that has not ended


@dataclass(frozen=True)
class Facts:
    """What is said beside what was seen of the file: whose plan it is, where the notes go, where the sum is from."""

    recipe: str
    folder: Path
    note: str = ""
    accept_licence: bool = False
    given: bool = False
    locked: bool = False

    def sum_from(self, seen: DriverState) -> str:
        """Who vouches for the file's sum."""
        if not seen.known:
            return ""
        return "locked" if self.locked else "given" if self.given else "published"


def as_text(seen: DriverState, facts: Facts) -> str:
    """The plan for people."""
    return folded(_lines(seen, facts))


def _lines(seen: DriverState, facts: Facts) -> Iterator[str]:
    what = f"{exact(seen.driver.title)} {seen.version}".rstrip()
    size = mib(seen.case.file.size_bytes / MIB)
    yield spoken("{} for {}, from {} ({})").format(what, facts.recipe, seen.path, size)
    if facts.note:
        yield f"{MARGIN}{spoken(facts.note)}"
    for words in driver.satisfied(seen):
        yield row(label("already so"), spoken(words))
    if seen.already:
        yield f"  {spoken('nothing to do: this release is installed')}"
        return
    for words in driver.doubts(seen):
        yield row(label("cannot tell"), spoken(words if ";" in words else words.removesuffix(UNTOLD)))
    yield row(spoken("step {}").format(1), spoken("run {}").format(command(seen)))
    yield f"{MARGIN}{spoken('why: {}; changes: {}').format(spoken(why(seen)), spoken(changes(seen)))}"
    yield f"{MARGIN}{spoken('root: {}; undo: {}').format(label('needed'), spoken(undo(seen)))}"
    yield row(label("licence"), spoken(licence(seen, facts)))
    yield row(label("reboot"), spoken(reboot(seen)))
    for words in seen.driver.caution:
        yield row(label("mind"), exact(words))
    for obstacle in driver.checks(seen):
        yield row(label("in the way"), spoken(obstacle.why))
        yield f"{MARGIN}{spoken('next: ')}{spoken(obstacle.remedy)}"


def command(seen: DriverState) -> str:
    return shlex.join(driver.argv_of(seen))


def why(seen: DriverState) -> str:
    return driver.standing(seen.case.site.installed, seen.case.minimum)


def changes(seen: DriverState) -> str:
    modules = f", the kernel's modules {', '.join(seen.driver.modules)}" if seen.driver.modules else ""
    return f"what the vendor's installer changes on this host{modules}"


def undo(seen: DriverState) -> str:
    return " && ".join(seen.driver.undo) or "the vendor names no way back"


def licence(seen: DriverState, facts: Facts) -> str:
    said = seen.driver.licence or "asked for by the installer itself, where it has one"
    return f"{said}; {'accepted by --accept-licence' if facts.accept_licence else 'you are asked'}"


def reboot(seen: DriverState) -> str:
    return "may follow; it is said if the installer asks for one" if seen.driver.reboot else "none is known of"


def as_values(seen: DriverState | None, facts: Facts, result: str, did: str = "", code: int = 0) -> dict[str, Any]:
    """The document of --json, of the same shape as provisioning's, with what is known of the driver besides."""
    obstacles = driver.checks(seen) if seen and not seen.already else ()
    first = next(iter(obstacles), None)
    return {
        "schema": SCHEMA_VERSION,
        "verb": "provision",
        "result": result,
        **outcome(code, *((first.why, first.remedy) if first else ("nothing was installed", ""))),
        "recipe": facts.recipe,
        "folder": str(facts.folder),
        "satisfied": list(driver.satisfied(seen)) if seen else [],
        "doubts": list(driver.doubts(seen)) if seen else [],
        "steps": [_step(seen)] if seen and not seen.already else [],
        "by_hand": [],
        "obstacle": asdict(obstacles[0]) if obstacles else None,
        "obstacles": [asdict(each) for each in obstacles],
        "performed": [{"step": "driver", "did": did}] if did else [],
        "driver": _driver(seen, facts) if seen else None,
    }


def _step(seen: DriverState) -> Mapping[str, object]:
    return {
        "name": "driver",
        "title": f"run {command(seen)}",
        "why": why(seen),
        "changes": changes(seen),
        "undo": undo(seen),
        "root": True,
    }


def _driver(seen: DriverState, facts: Facts) -> Mapping[str, object]:
    return {
        "title": seen.driver.title,
        "file": str(seen.path),
        "size_bytes": seen.case.file.size_bytes,
        "version": seen.version,
        "installed": seen.case.site.installed,
        "minimum": seen.case.minimum,
        "sha256": seen.sha256,
        "sha256_from": facts.sum_from(seen),
        "argv": list(driver.argv_of(seen)),
        "licence": seen.driver.licence,
        "reboot": bool(seen.driver.reboot),
        "undo": list(seen.driver.undo),
        "caution": list(seen.driver.caution),
        "log": seen.driver.log,
    }


class Echo:
    """The installer's words on standard error, whole lines as they come."""

    def __init__(self) -> None:
        self.open, self.lines = "", 0

    def hear(self, text: str) -> None:
        *lines, rest = (self.open + text).split("\n")
        self.open = rest[-OPEN:]
        for line in lines:
            self.show(line)

    def show(self, line: str) -> None:
        self.lines += 1
        if self.lines <= SHOWN:
            say(f"   | {redact(clean(line))}")
        elif self.lines == SHOWN + 1:
            say(f"   | {spoken('... (the rest is in the journal)')}")

    def question(self, text: str) -> None:
        """What a licence is asked for: all of `text` where not all of it was shown already."""
        if self.lines == 0 or self.lines > SHOWN:
            say(redact(text))
        elif self.open:
            say(f"   | {redact(clean(self.open))}")
        self.open = ""


def say(text: str) -> None:
    with unheard():
        click.echo(text, err=True)
