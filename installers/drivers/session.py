"""What `envcheck provision --driver` does: look, show, ask, run the vendor's installer, write it down."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from envcheck.collect.host.answers import SYSROOT
from envcheck.core import errors, language, paths
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.signals import heard_by, interrupt
from installers.drivers import driver, driver_text, fetch, lock_entries
from installers.drivers.dialogue import DeclinedError, Dialogue
from installers.drivers.download_http import name_of
from installers.drivers.driver import DriverState
from installers.drivers.driver_text import Echo, Facts, say
from installers.drivers.lock_entries import STEP
from installers.locks import lockfile_use
from installers.locks.lockfile import Lock
from installers.recipes.recipe import Recipe
from installers.state import journal, lock

FETCH = "fetch"  # in the place of a file's name: what the vendor publishes
THE_FILE = "Is that the vendor's file?"
BIG = 64 << 20  # bytes; reading less takes no time worth a word


@dataclass(frozen=True)
class DriverRequest:
    """`file` is a path or FETCH; `note` says why it is this recipe; `folder` is where journal and lock stand.

    `recipe` is narrowed to the device's driver, `whole` the one of the lock; `lock` is what --locked named.
    """

    recipe: Recipe
    file: str
    folder: Path
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    accept_licence: bool = False
    sha256: str = ""
    allow_downgrade: bool = False
    note: str = ""
    whole: Recipe | None = None
    lock: Lock | None = None

    @property
    def facts(self) -> Facts:
        given = bool(self.sha256)
        return Facts(self.recipe.name, self.folder, self.note, self.accept_licence, given, self.lock is not None)


def run(asked: DriverRequest) -> int:
    """Install the driver, or with --dry-run show how it would be."""
    if asked.sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", asked.sha256):
        raise UsageError("--sha256 takes 64 hexadecimal digits", "sha256sum FILE.run prints them")
    if os.environ.get(SYSROOT) and not asked.dry_run:
        raise UsageError("this machine is simulated, and the installer would run on the real one", "add --dry-run")
    seen: list[DriverState] = []
    with heard_by(interrupt):
        try:
            return _run(replace(asked, sha256=asked.sha256.lower()), seen)
        except EnvcheckError as err:
            err.document = driver_text.as_values(seen[-1] if seen else None, asked.facts, "failed")
            raise


def _run(asked: DriverRequest, shown: list[DriverState]) -> int:
    """`shown` gets what was seen, for whoever tells of a failure."""
    found = _file(asked)
    if isinstance(found, int):
        return found
    path, known = found
    seen = _look(asked, path, known)
    shown.append(seen)
    blocking = () if seen.already else driver.checks(seen)
    if seen.already and not asked.dry_run and lock_entries.unkept(asked.folder, asked.whole or asked.recipe, seen):
        with lock.held(asked.folder, say):
            lock_entries.keep(asked.folder, asked.whole or asked.recipe, seen)
    if asked.dry_run or seen.already:
        code = blocking[0].code if blocking else errors.FIT
        _tell(asked, seen, "ready" if seen.already else "planned", code=code)
        return code
    click.echo(driver_text.as_text(seen, asked.facts), err=asked.as_json)
    if blocking:
        raise _refusal(seen)
    if not _agreed(asked, seen):
        return _declined(asked, seen)
    try:
        did = _perform(asked, seen)
    except DeclinedError:
        return _declined(asked, seen)
    if asked.as_json:
        _tell(asked, seen, "done" if did else "ready", did)
    else:
        click.echo(language.say(f"installed: {did}" if did else "another run has installed it meanwhile"))
    return errors.FIT


def _file(asked: DriverRequest) -> tuple[Path, str] | int:
    """The file and the sum that is vouched for; an exit code where all is said already."""
    if asked.file != FETCH:
        return paths.given(asked.file, "--driver"), asked.sha256
    found = fetch.plan(asked.recipe, asked.allow_downgrade)
    sha256 = _of_lock(asked, name_of(found.file.url), published=True)
    if asked.dry_run or found.already:
        words = fetch.as_text(found, asked.recipe.name)
        values = driver_text.as_values(None, asked.facts, "ready" if found.already else "planned")
        click.echo(json.dumps(values | {"fetch": asdict(found)}, indent=1) if asked.as_json else words)
        return errors.FIT
    click.echo(fetch.as_text(found, asked.recipe.name), err=asked.as_json)
    if not asked.yes and not _confirmed("Fetch it?", ["--yes to do what the plan says"]):
        return _declined(asked, None)
    fetched = fetch.fetch(found, sha256)
    return fetched.path, fetched.sha256 if fetched.vouched else sha256


def _of_lock(asked: DriverRequest, file_name: str, published: bool = False) -> str:
    """The sum that the lock has for the file, else a person's own, "" where there is none."""
    if asked.lock is None:
        return asked.sha256
    entry = lock_entries.wanted(asked.lock, asked.recipe, fetch.architecture(), file_name)
    lock_entries.agreeing(entry, asked.sha256)
    if published:
        lock_entries.published(entry, file_name)
    return entry.sha256


def _look(asked: DriverRequest, path: Path, sha256: str) -> DriverState:
    sha256 = _of_lock(asked, path.name) if asked.lock else sha256
    with contextlib.suppress(OSError):
        if path.stat().st_size > BIG:
            say(language.say(f"reading {path.name}"))
    seen = driver.look(asked.recipe, path, locked_sha256=sha256, allow_downgrade=asked.allow_downgrade)
    if asked.lock:
        lock_entries.compared(lockfile_use.installer(asked.lock, seen.driver.name), seen)
    published = driver.published_sha256(seen.driver, path.name)
    if asked.sha256 and published and asked.sha256 != published:
        raise UsageError(f"--sha256 is not the sum that the recipe has for {path.name}", f"the recipe's is {published}")
    return seen


def _refusal(seen: DriverState) -> EnvcheckError:
    first = driver.checks(seen)[0]
    refused = EnvcheckError(first.why, first.remedy)
    refused.code = first.code
    return refused


def _agreed(asked: DriverRequest, seen: DriverState) -> bool:
    """Nobody there to answer is wrong usage, never a yes; and --yes is neither a licence's nor a sum's."""
    if not sys.stdin.isatty() and (missing := list(_unanswered(asked, seen))):
        raise UsageError("there is nobody to ask", f"add {', '.join(missing)}; or --dry-run to only see the plan")
    unknown = language.say("Nobody publishes a sum of this file. Its SHA-256 is")
    about_sum = f"{unknown}\n  {seen.sha256}\n{language.say(THE_FILE)}"
    return (seen.known or click.confirm(about_sum, err=True)) and (
        asked.yes or click.confirm(language.say("Do this?"), err=True)
    )


def _unanswered(asked: DriverRequest, seen: DriverState) -> list[str]:
    licensed = seen.driver.licence_arguments or any(prompt.licence for prompt in seen.driver.prompts)
    wanted = (
        (not asked.yes, "--yes to do what the plan says"),
        (not seen.known, f"--sha256 {seen.sha256} if that is the vendor's file"),
        (licensed and not asked.accept_licence, "--accept-licence if you have read the vendor's licence and accept it"),
    )
    return [words for missing, words in wanted if missing]


def _confirmed(question: str, otherwise: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", f"add {', '.join(otherwise)}; or --dry-run to only see the plan")
    return click.confirm(language.say(question), err=True)


def _perform(asked: DriverRequest, seen: DriverState) -> str:
    """What was done, in words; "" where nothing was left to do.  The host is looked at again under the lock."""
    try:
        with lock.held(asked.folder, say):
            now = driver.again(seen, asked.recipe.device)
            if now.already:
                return ""
            if driver.checks(now):
                raise _refusal(now)
            return _journalled(asked, now)
    except OSError as err:
        why = f"{err.filename or asked.folder}: {(err.strerror or str(err)).lower()}"
        raise StepError(why, "make room there, or set ENVCHECK_HOME to a folder of yours") from None


def _journalled(asked: DriverRequest, seen: DriverState) -> str:
    """The installer with its beginning and its end in the journal, whatever the end, and the whole dialogue."""
    kept: list[Dialogue] = []
    vouched = asked.facts.sum_from(seen) or "agreed by a person"
    about = {
        "file": str(seen.path),
        "sha256": seen.sha256,
        "sha256_from": vouched,
        "installed": seen.case.site.installed,
    }
    journal.write(asked.folder, STEP, "begun", what=f"run {driver_text.command(seen)}", **about)
    say(f"-> {language.say('run {}').format(driver_text.command(seen))}")
    echo = Echo()
    try:
        did = driver.install(
            seen,
            sha256=seen.sha256,
            ask_licence=_licence(seen, echo),
            keep=kept.append,
            hear=echo.hear,
            accept_licence=asked.accept_licence,
        )
    except BaseException as err:
        stopped = isinstance(err, (KeyboardInterrupt, click.Abort))
        with contextlib.suppress(OSError):  # the reason must get out, though the disk be full
            event = "interrupted" if stopped else "failed"
            journal.write(asked.folder, STEP, event, why=str(err)[:4000], **_dialogue(kept))
        if isinstance(err, StepError):
            err.next_step = "; ".join(filter(None, (err.next_step, f"journal: {journal.path(asked.folder)}")))
        raise
    kept_in = lock_entries.keep(asked.folder, asked.whole or asked.recipe, seen)
    journal.write(asked.folder, STEP, "done", result=did, **_dialogue(kept))
    say(language.say(f"its SHA-256 {seen.sha256} is kept in {kept_in}"))
    return did


def _licence(seen: DriverState, echo: Echo) -> Callable[[str], bool]:
    """A person's own answer, to what the installer shows."""

    def asks(text: str) -> bool:
        if not sys.stdin.isatty():
            raise UsageError("the installer asks for its licence, and there is nobody to ask", "add --accept-licence")
        echo.question(text)
        return click.confirm(language.say(f"Do you accept the licence of {seen.driver.title}?"), err=True)

    return asks


def _dialogue(kept: list[Dialogue]) -> dict[str, object]:
    return {"dialogue": asdict(kept[-1])} if kept else {}


def _declined(asked: DriverRequest, seen: DriverState | None) -> int:
    if asked.as_json:
        click.echo(json.dumps(driver_text.as_values(seen, asked.facts, "declined", code=errors.UNFIT), indent=1))
    else:
        click.echo(language.say("declined: nothing was installed"))
    return errors.UNFIT


def _tell(asked: DriverRequest, seen: DriverState, result: str, did: str = "", code: int = 0) -> None:
    if asked.as_json:
        click.echo(json.dumps(driver_text.as_values(seen, asked.facts, result, did, code), indent=1))
    else:
        click.echo(driver_text.as_text(seen, asked.facts))
