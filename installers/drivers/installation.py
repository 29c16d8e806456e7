"""Inspect, judge, run and verify a driver installer.

Without a given file: `fetch_driver_file(find_published_file(recipe, architecture))`.  Then `inspect_installer`, which
runs nothing of the file; `find_obstacles`, `list_doubts` and `list_satisfied` of its result; and `install_driver`.
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

from envcheck.collect import answer_sources as machines
from envcheck.collect.answer_sources import AnswerSource
from envcheck.core.errors import StepError, UsageError, describe_os_error
from envcheck.core.messages import NOTHING, Message, _, fill, join, mark
from envcheck.core.versions import is_same_release
from installers.drivers import dialogue, download, host_facts, installer_tables, run_file
from installers.drivers.dialogue import DeclinedError, DialogueError, InstallerDialogue
from installers.drivers.download import DownloadedFile, Progress
from installers.drivers.download_http import fetch_published_sum, parse_file_name
from installers.drivers.patterns import contains_pieces
from installers.drivers.preconditions import DriverCase, PreconditionVerdict, judge_case
from installers.plan.requirement import Obstacle
from installers.recipes.recipe import DriverInstaller, PublishedDriverFile, Recipe
from installers.state import checksums


@dataclass(frozen=True)
class DriverState:
    """An installer file and the host, inspected and judged."""

    case: DriverCase
    verdicts: tuple[PreconditionVerdict, ...]

    @property
    def driver(self) -> DriverInstaller:
        """The installer's description from the recipe or the vendor's table."""
        return self.case.named.driver

    @property
    def version(self) -> str:
        """The version in the file's name; "" if it has none."""
        return self.case.named.version

    @property
    def path(self) -> Path:
        """The installer file."""
        return self.case.file.path

    @property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return self.case.file.sha256

    @property
    def is_known(self) -> bool:
        """Whether the recipe, the vendor or a lock gives the file's checksum."""
        return bool(self.case.expected_sha256)

    @property
    def is_installed(self) -> bool:
        """Whether exactly this release is installed, so that there is nothing to do."""
        there = self.case.site.installed
        return bool(there and self.version and is_same_release(self.version, there))


def inspect_installer(
    recipe: Recipe,
    path: Path,
    *,
    locked_sha256: str = "",
    allow_downgrade: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    machine: AnswerSource | None = None,
) -> DriverState:
    """Inspect the file and the host.  UsageError if none of the recipe's installers matches the file name."""
    named = installer_tables.match_installer(installer_tables.list_drivers(recipe), path.name)
    file = run_file.read_run_file(path.absolute(), progress)
    case = DriverCase(
        named=named,
        file=file,
        site=host_facts.gather_facts(named.driver, recipe.device, machine or machines.local_machine()),
        minimum=required_minimum(recipe, named.driver),
        expected_sha256=locked_sha256 or published_sha256(named.driver, path.name),
        allow_downgrade=allow_downgrade,
        guarded=is_guarded(file.path),
    )
    return DriverState(case, judge_case(case))


def inspect_again(state: DriverState, device: str, machine: AnswerSource | None = None) -> DriverState:
    """Inspect the host again, after a question or a wait; the file is compared again when it is run."""
    case = replace(state.case, site=host_facts.gather_facts(state.driver, device, machine or machines.local_machine()))
    return DriverState(case, judge_case(case))


def required_minimum(recipe: Recipe, driver: DriverInstaller) -> str | None:
    """Return the recipe's minimum version of this installer's driver or firmware."""
    return {"driver": recipe.driver_minimum, "firmware": recipe.firmware_minimum}.get(driver.name)


def describe_versions(installed: str | None, minimum: str | None) -> Message:
    """Return the installed and the required version as text."""
    here = (
        _("installed version unknown")
        if installed is None
        else _("{installed} installed", installed=installed)
        if installed
        else _("not installed")
    )
    return _("{state}; {minimum} or newer required", state=here, minimum=minimum) if minimum else here


def published_sha256(driver: DriverInstaller, file_name: str) -> str:
    """Return the recipe's checksum for a file of this name; "" if none is published."""
    return next((file.sha256 for file in driver.published if file.url.rpartition("/")[2] == file_name), "")


def find_obstacles(state: DriverState) -> tuple[Obstacle, ...]:
    """Return what blocks the installation, in the order in which to resolve it."""
    return tuple(Obstacle(v.words, v.remedy, v.code) for v in state.verdicts if v.fits is False)


def list_doubts(state: DriverState) -> tuple[str, ...]:
    """Return what could not be determined; shown to the user, blocks nothing."""
    return tuple(v.words for v in state.verdicts if v.fits is None)


def list_satisfied(state: DriverState) -> tuple[str, ...]:
    """Return the preconditions that are met."""
    return tuple(v.words for v in state.verdicts if v.fits)


def build_argv(state: DriverState, path: Path | None = None) -> tuple[str, ...]:
    """Return the command as shown and run; `path` is the private copy, if one is run."""
    arguments = (*state.driver.arguments, *state.driver.licence_arguments)
    return (state.case.file.shell, str(path or state.path), *arguments)


def install_driver(
    state: DriverState,
    *,
    sha256: str,
    ask_licence: Callable[[str], bool],
    on_dialogue: Callable[[InstallerDialogue], None],
    on_output: Callable[[str], None] = lambda text: None,
    accept_licence: bool = False,
    machine: AnswerSource | None = None,
) -> str:
    """Run the installer, answer it and verify the installed version; return what was done, as text.

    `sha256` is the checksum that the recipe, the lock or the user confirmed; the file is compared with it again.
    `on_dialogue` gets the dialogue for the journal.  StepError if it fails; DialogueError if the installer gets stuck.
    """
    if blocking := find_obstacles(state):
        raise StepError(blocking[0].why, blocking[0].remedy)
    agreed = (lambda text: True) if accept_licence else ask_licence
    if state.driver.licence_arguments and not agreed(state.driver.licence):
        raise DeclinedError(
            _("licence declined; nothing was installed"), NOTHING, InstallerDialogue(build_argv(state), None, "")
        )
    with _agreed_file(state, sha256) as path:
        try:
            ended = dialogue.run_installer(
                state.driver,
                build_argv(state, path),
                ask_licence=agreed,
                on_dialogue=on_dialogue,
                on_output=on_output,
                cwd=Path("/"),
            )
        except DialogueError as err:
            err.next_step = _mention_log(err.next_step, state.driver)
            raise
    if ended.status not in state.driver.exit_codes:
        last = dialogue.find_question(ended.output)
        raise StepError(
            _("{name} failed with status {status}: {last}", name=state.path.name, status=ended.status, last=last),
            _mention_log(NOTHING, state.driver),
        )
    return _verify_version(state, ended, machine or machines.local_machine())


@contextlib.contextmanager
def _agreed_file(state: DriverState, sha256: str) -> Iterator[Path]:
    """Yield the file with this checksum: itself, or a private copy if other users could replace it."""
    with contextlib.ExitStack() as stack:
        path = state.path
        try:
            if not state.case.guarded:
                own = tempfile.TemporaryDirectory(prefix="envcheck-driver-", dir=state.case.site.scratch)
                path = Path(stack.enter_context(own)) / state.path.name
                shutil.copyfile(state.path, path)
            found = checksums.compute_sha256(path)
        except OSError as err:
            raise StepError(
                _("{path}: {reason}", path=err.filename or path, reason=describe_os_error(err)),
                _("free disk space"),
            ) from None
        if found != sha256:
            raise StepError(
                _(
                    "{path}: expected SHA-256 {sha256}, got {found}",
                    path=state.path,
                    found=found,
                    sha256=sha256 or _("none"),
                ),
                _("download the file again"),
            )
        yield path


ACTIVE_AFTER = mark("{title} {version}; reboot required")
SHOWN_AFTER = mark("{title} {wanted} installed ({detail}); reboot, then run `envcheck doctor`")


def requires_reboot(did: str) -> bool:
    """Return whether the result of an installation says that the host must be rebooted."""
    return isinstance(did, Message) and did.template in (ACTIVE_AFTER, SHOWN_AFTER)


def _verify_version(state: DriverState, ended: InstallerDialogue, machine: AnswerSource) -> Message:
    """Return the result after reading the version again; the old one may be reported until a required reboot."""
    now, driver, wanted = host_facts.read_installed_version(state.driver, machine), state.driver, state.version
    reboot = any(contains_pieces(text, line) for text in driver.reboot for line in ended.output.splitlines())
    if now and (not wanted or is_same_release(wanted, now)):
        return (
            fill(ACTIVE_AFTER, title=driver.title, version=now)
            if reboot
            else _("{title} {version}", title=driver.title, version=now)
        )
    detail = _("version found: {now}", now=now) if now else _("no version found")
    if reboot:
        return fill(SHOWN_AFTER, title=driver.title, wanted=wanted, detail=detail)
    raise StepError(
        _(
            "{name} succeeded, but {wanted} is not installed ({detail})",
            name=state.path.name,
            wanted=wanted or _("a version"),
            detail=detail,
        ),
        _mention_log(NOTHING, driver),
    )


def _mention_log(next_step: Message, driver: DriverInstaller) -> Message:
    return join("; ", filter(None, (next_step, _("installer log: {log}", log=driver.log) if driver.log else NOTHING)))


def fetch_driver_file(
    file: PublishedDriverFile, *, locked_sha256: str = "", progress: Progress = lambda done, total: None
) -> DownloadedFile:
    """Return the published file from the cache or the vendor; its sum is from the lock, the recipe or the vendor."""
    wanted = locked_sha256 or file.sha256
    if not wanted and file.sha256_url:
        wanted = fetch_published_sum(file.sha256_url, parse_file_name(file.url))
    return download.download_file(file.url, sha256=wanted, progress=progress)


def is_guarded(path: Path) -> bool | None:
    """Return whether only root and the caller can modify or replace the file; a sticky folder such as /tmp counts."""
    try:
        for place in (path, *path.resolve().parents):
            seen = place.stat()
            others = seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not seen.st_mode & stat.S_ISVTX
            if others or seen.st_uid not in (0, os.geteuid()):
                return False
    except OSError:
        return None
    return True


def find_published_file(recipe: Recipe, architecture: str, name: str = "driver") -> PublishedDriverFile:
    """Return what to download for the recipe.  UsageError if the vendor publishes no suitable file."""
    known = {driver.name: driver for driver in installer_tables.list_drivers(recipe)}
    driver = known.get(name)
    found = installer_tables.find_published(driver, architecture, required_minimum(recipe, driver)) if driver else None
    if not found:
        raise UsageError(
            _(
                "no download URL known for the {name} of {device} on {architecture}",
                name=name,
                device=recipe.device,
                architecture=architecture,
            ),
            _("download the .run file from the vendor, then pass it: --install-driver FILE.run"),
        )
    return found
