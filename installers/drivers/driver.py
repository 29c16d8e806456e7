"""A driver's installer: looked at, judged, driven, and proved.

Where nobody gave a file: `fetch(file_of(recipe, architecture))`.  Then `look(recipe, path)`, which runs nothing of the
file; `checks`, `doubts` and `satisfied` of what was seen; and `install`, which says what was done.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.collect import machine as machines
from envcheck.collect.machine import Machine
from envcheck.core.errors import StepError, UsageError
from envcheck.core.versions import same_release
from installers.drivers import dialogue, download, host_facts, installer_tables, run_file
from installers.drivers.dialogue import DeclinedError, Dialogue, DialogueError
from installers.drivers.download import Fetched, Tell
from installers.drivers.download_http import name_of, published_sum
from installers.drivers.patterns import contains
from installers.drivers.preconditions import Case, Verdict, judge
from installers.plan.requirement import Obstacle
from installers.recipes.recipe import Driver, DriverFile, Recipe
from installers.state import checksums


@dataclass(frozen=True)
class DriverState:
    """A file and the host, looked at and judged.  `sha256` is the file's; `known` says that somebody vouches for it."""

    case: Case
    verdicts: tuple[Verdict, ...]

    @property
    def driver(self) -> Driver:
        return self.case.named.driver

    @property
    def version(self) -> str:
        return self.case.named.version

    @property
    def path(self) -> Path:
        return self.case.file.path

    @property
    def sha256(self) -> str:
        return self.case.file.sha256

    @property
    def known(self) -> bool:
        return bool(self.case.expected_sha256)

    @property
    def already(self) -> bool:
        """Whether this very release is installed, so that there is nothing to do."""
        there = self.case.site.installed
        return bool(there and self.version and same_release(self.version, there))


def look(
    recipe: Recipe,
    path: Path,
    *,
    locked_sha256: str = "",
    allow_downgrade: bool = False,
    tell: Callable[[int, int], None] = lambda done, total: None,
    machine: Machine | None = None,
) -> DriverState:
    """Read the file and the host.  UsageError when the file is none that the recipe's installers know."""
    named = installer_tables.named(installer_tables.drivers_of(recipe), path.name)
    file = run_file.read(path.absolute(), tell)
    case = Case(
        named=named,
        file=file,
        site=host_facts.gather(named.driver, recipe.device, machine or machines.here()),
        minimum=minimum_of(recipe, named.driver),
        expected_sha256=locked_sha256 or published_sha256(named.driver, path.name),
        allow_downgrade=allow_downgrade,
        guarded=guarded(file.path),
    )
    return DriverState(case, judge(case))


def again(seen: DriverState, device: str, machine: Machine | None = None) -> DriverState:
    """The host looked at once more, after a question or a wait; the file is compared when it is run."""
    case = replace(seen.case, site=host_facts.gather(seen.driver, device, machine or machines.here()))
    return DriverState(case, judge(case))


def minimum_of(recipe: Recipe, driver: Driver) -> str | None:
    """What the recipe wants of this one: its driver or its firmware."""
    return {"driver": recipe.driver_minimum, "firmware": recipe.firmware_minimum}.get(driver.name)


def standing(installed: str | None, minimum: str | None) -> str:
    """Which version is there, and which is wanted, in words."""
    here = "which one is installed could not be told" if installed is None else f"{installed or 'none'} is installed"
    return f"{here}, {minimum} or newer is wanted" if minimum else here


def published_sha256(driver: Driver, file_name: str) -> str:
    """The sum in the recipe for a file of this name; "" where none is published."""
    return next((file.sha256 for file in driver.published if file.url.rpartition("/")[2] == file_name), "")


def checks(seen: DriverState) -> tuple[Obstacle, ...]:
    """What is in the way, in the order in which a person would see to it."""
    return tuple(Obstacle(v.words, v.remedy, v.code) for v in seen.verdicts if v.fits is False)


def doubts(seen: DriverState) -> tuple[str, ...]:
    """What could not be told: to be shown, stops nothing."""
    return tuple(v.words for v in seen.verdicts if v.fits is None)


def satisfied(seen: DriverState) -> tuple[str, ...]:
    return tuple(v.words for v in seen.verdicts if v.fits)


def argv_of(seen: DriverState, path: Path | None = None) -> tuple[str, ...]:
    """The command, as it is shown and run; `path` is the copy where one is run."""
    arguments = (*seen.driver.arguments, *seen.driver.licence_arguments)
    return (seen.case.file.shell, str(path or seen.path), *arguments)


def install(
    seen: DriverState,
    *,
    sha256: str,
    ask_licence: Callable[[str], bool],
    keep: Callable[[Dialogue], None],
    hear: Callable[[str], None] = lambda text: None,
    accept_licence: bool = False,
    machine: Machine | None = None,
) -> str:
    """Run the installer, answer it, and see that the version is there; what was done, in words.

    `sha256` is the sum that the recipe, the lock or a person agreed to: the file is compared with it once more.  What
    `keep` gets belongs into the journal.  StepError when it fails; DialogueError, with the dialogue, when it is stuck.
    """
    if blocking := checks(seen):
        raise StepError(blocking[0].why, blocking[0].remedy)
    agreed = (lambda text: True) if accept_licence else ask_licence
    if seen.driver.licence_arguments and not agreed(seen.driver.licence):
        raise DeclinedError("the licence was declined, nothing was installed", "", Dialogue(argv_of(seen), None, ""))
    with _agreed_file(seen, sha256) as path:
        try:
            said = dialogue.hold(
                seen.driver, argv_of(seen, path), ask_licence=agreed, keep=keep, hear=hear, cwd=Path("/")
            )
        except DialogueError as err:
            err.next_step = _with_log(err.next_step, seen.driver)
            raise
    if said.status not in seen.driver.exit_codes:
        last = dialogue.question_in(said.said)
        raise StepError(f"{seen.path.name} ended with {said.status}: {last}", _with_log("", seen.driver))
    return _proved(seen, said, machine or machines.here())


@contextlib.contextmanager
def _agreed_file(seen: DriverState, sha256: str) -> Iterator[Path]:
    """The file with this sum: itself, or a copy in a folder of ours where others could replace it meanwhile."""
    with contextlib.ExitStack() as stack:
        path = seen.path
        try:
            if not seen.case.guarded:
                own = tempfile.TemporaryDirectory(prefix="envcheck-driver-", dir=seen.case.site.scratch)
                path = Path(stack.enter_context(own)) / seen.path.name
                shutil.copyfile(seen.path, path)
            found = checksums.sha256(path)
        except OSError as err:
            raise StepError(f"{err.filename or path}: {(err.strerror or str(err)).lower()}", "make room") from None
        if found != sha256:
            raise StepError(f"{seen.path} has the SHA-256 {found}, agreed was {sha256 or 'none'}", "fetch it again")
        yield path


def _proved(seen: DriverState, said: Dialogue, machine: Machine) -> str:
    """The version afterwards.  Where a reboot is asked for, the old one may still be told until then."""
    now, driver, wanted = host_facts.installed(seen.driver, machine), seen.driver, seen.version
    reboot = any(contains(text, line) for text in driver.reboot for line in said.said.splitlines())
    if now and (not wanted or same_release(wanted, now)):
        return f"{driver.title} {now}{'; it asks for a reboot' if reboot else ''}"
    told = f"{now} is told" if now else "none is told"
    if reboot:
        return f"{driver.title} {wanted} was put in, {told}; it asks for a reboot, then: envcheck doctor"
    raise StepError(
        f"{seen.path.name} ended well, yet {wanted or 'a version'} is not there: {told}", _with_log("", driver)
    )


def _with_log(next_step: str, driver: Driver) -> str:
    return "; ".join(filter(None, (next_step, f"its own log: {driver.log}" if driver.log else "")))


def fetch(file: DriverFile, *, locked_sha256: str = "", tell: Tell = lambda done, total: None) -> Fetched:
    """The published file, from the cache or the vendor; its sum is from the lock, the recipe, or the vendor."""
    wanted = locked_sha256 or file.sha256
    if not wanted and file.sha256_url:
        wanted = published_sum(file.sha256_url, name_of(file.url))
    return download.fetch(file.url, sha256=wanted, tell=tell)


def guarded(path: Path) -> bool | None:
    """Whether root and the caller alone can write the file and take it away; /tmp's sticky bit keeps it in place."""
    try:
        for place in (path, *path.resolve().parents):
            seen = place.stat()
            others = seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not seen.st_mode & stat.S_ISVTX
            if others or seen.st_uid not in (0, os.geteuid()):
                return False
    except OSError:
        return None
    return True


def file_of(recipe: Recipe, architecture: str, name: str = "driver") -> DriverFile:
    """What to download for the recipe; UsageError where the vendor publishes nothing that fits."""
    known = {driver.name: driver for driver in installer_tables.drivers_of(recipe)}
    driver = known.get(name)
    found = installer_tables.published(driver, architecture, minimum_of(recipe, driver)) if driver else None
    if not found:
        raise UsageError(
            f"no {name} for {recipe.device} on {architecture} is published at a known address",
            "get the .run file from the vendor, and give it by --driver FILE.run",
        )
    return found
