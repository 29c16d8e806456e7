"""`envcheck provision --install-driver`: inspect, show the plan, ask, run the vendor's installer, and journal it."""

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
from envcheck.core.errors import EnvcheckError, StepError, UsageError, describe_os_error
from envcheck.core.messages import NOTHING, Message, _, join
from envcheck.core.signals import handle_signals, raise_interrupt
from installers.drivers import fetch, installation, lock_entries, presentation
from installers.drivers.dialogue import DeclinedError, InstallerDialogue
from installers.drivers.download_http import parse_file_name
from installers.drivers.installation import DriverState
from installers.drivers.lock_entries import STEP
from installers.drivers.presentation import DriverPlanContext, InstallerEcho, echo_stderr
from installers.locks import enforcement
from installers.locks.lockfile import Lock
from installers.recipes.recipe import Recipe
from installers.state import journal, lock

FETCH = "fetch"  # instead of a file name: download what the vendor publishes
THE_FILE = _("Is this the vendor's file?")
BIG = 64 << 20  # bytes; smaller files are read without a progress message


@dataclass(frozen=True)
class DriverRequest:
    """The options of one driver installation.

    `file` is a path or FETCH; `note` explains why this recipe was chosen; `folder` holds the journal and the lock
    file. `recipe` is narrowed to the device's driver, `whole` is the recipe of the lock; `lock` is the file of
    --locked.
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
    note: Message = NOTHING
    whole: Recipe | None = None
    lock: Lock | None = None

    @property
    def plan_context(self) -> DriverPlanContext:
        """Return what the plan shows besides the state of the host."""
        given = bool(self.sha256)
        return DriverPlanContext(
            self.recipe.name, self.folder, self.note, self.accept_licence, given, self.lock is not None
        )


def run_request(asked: DriverRequest) -> int:
    """Install the driver, or with --dry-run show the plan; return the exit code."""
    if asked.sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", asked.sha256):
        raise UsageError(_("--sha256 requires 64 hexadecimal digits"), _("run `sha256sum FILE.run` to compute them"))
    if os.environ.get(SYSROOT) and not asked.dry_run:
        raise UsageError(
            _("this machine is simulated, but the installer would run on the real one"), _("add --dry-run")
        )
    seen: list[DriverState] = []
    with handle_signals(raise_interrupt):
        try:
            return _run_checked(replace(asked, sha256=asked.sha256.lower()), seen)
        except EnvcheckError as err:
            err.document = presentation.build_document(seen[-1] if seen else None, asked.plan_context, "failed")
            raise


def _run_checked(asked: DriverRequest, shown: list[DriverState]) -> int:
    """Do the steps of `run_request`; append each DriverState to `shown` for the report of a failure."""
    found = _find_file(asked)
    if isinstance(found, int):
        return found
    path, known = found
    state = _inspect_file(asked, path, known)
    shown.append(state)
    blocking = () if state.is_installed else installation.find_obstacles(state)
    if (
        state.is_installed
        and not asked.dry_run
        and lock_entries.is_unrecorded(asked.folder, asked.whole or asked.recipe, state)
    ):
        with lock.hold_lock(asked.folder, echo_stderr):
            lock_entries.record_driver(asked.folder, asked.whole or asked.recipe, state)
    if asked.dry_run or state.is_installed:
        code = blocking[0].code if blocking else errors.SUCCESS
        _report_result(asked, state, "ready" if state.is_installed else "planned", code=code)
        return code
    click.echo(presentation.render_text(state, asked.plan_context), err=asked.as_json)
    if blocking:
        raise _refusal_error(state)
    if not _ask_agreement(asked, state):
        return _report_declined(asked, state)
    try:
        did = _install_locked(asked, state)
    except DeclinedError:
        return _report_declined(asked, state)
    code = errors.REBOOT_NEEDED if installation.requires_reboot(did) else errors.SUCCESS
    if asked.as_json:
        _report_result(asked, state, "done" if did else "ready", did, code)
    else:
        click.echo(
            language.translate(
                _("installed: {did}", did=did) if did else _("another run installed the driver in the meantime")
            )
        )
    return code


def _find_file(asked: DriverRequest) -> tuple[Path, str] | int:
    """Return the file and its trusted sum, or an exit code if the request is already finished."""
    if asked.file != FETCH:
        return paths.parse_path(asked.file, "--install-driver"), asked.sha256
    found = fetch.plan_fetch(asked.recipe, asked.allow_downgrade)
    sha256 = _read_locked_sum(asked, parse_file_name(found.file.url), published=True)
    if asked.dry_run or found.up_to_date:
        words = fetch.render_text(found, asked.recipe.name)
        values = presentation.build_document(None, asked.plan_context, "ready" if found.up_to_date else "planned")
        click.echo(json.dumps(values | {"fetch": asdict(found)}, indent=1) if asked.as_json else words)
        return errors.SUCCESS
    click.echo(fetch.render_text(found, asked.recipe.name), err=asked.as_json)
    if not asked.yes and not _ask_confirmation(_("Download it?"), [_("--yes to carry out the plan")]):
        return _report_declined(asked, None)
    fetched = fetch.fetch_file(found, sha256)
    return fetched.path, fetched.sha256 if fetched.vouched else sha256


def _read_locked_sum(asked: DriverRequest, file_name: str, published: bool = False) -> str:
    """Return the file's sum from the lock, else the user's own, else ""."""
    if asked.lock is None:
        return asked.sha256
    entry = lock_entries.find_entry(asked.lock, asked.recipe, fetch.read_architecture(), file_name)
    lock_entries.check_given_sum(entry, asked.sha256)
    if published:
        lock_entries.check_published(entry, file_name)
    return entry.sha256


def _inspect_file(asked: DriverRequest, path: Path, sha256: str) -> DriverState:
    sha256 = _read_locked_sum(asked, path.name) if asked.lock else sha256
    with contextlib.suppress(OSError):
        if path.stat().st_size > BIG:
            echo_stderr(language.translate(_("reading {name}", name=path.name)))
    state = installation.inspect_installer(
        asked.recipe, path, locked_sha256=sha256, allow_downgrade=asked.allow_downgrade
    )
    if asked.lock:
        lock_entries.check_sum(enforcement.find_installer(asked.lock, state.driver.name), state)
    published = installation.published_sha256(state.driver, path.name)
    if asked.sha256 and published and asked.sha256 != published:
        raise UsageError(
            _("--sha256 differs from the recipe's checksum for {name}", name=path.name),
            _("the recipe lists {published}", published=published),
        )
    return state


def _refusal_error(state: DriverState) -> EnvcheckError:
    first = installation.find_obstacles(state)[0]
    refused = EnvcheckError(first.why, first.remedy)
    refused.code = first.code
    return refused


def _ask_agreement(asked: DriverRequest, state: DriverState) -> bool:
    """Ask for confirmation.  Without a terminal this is a usage error, never a yes.

    --yes accepts neither a licence nor an unpublished checksum.
    """
    if not sys.stdin.isatty() and (missing := list(_list_missing_answers(asked, state))):
        raise UsageError(
            _("cannot ask for confirmation: no terminal"),
            _("add {missing}, or --dry-run to print the plan only", missing=join(", ", missing)),
        )
    unknown = language.translate(_("No checksum is published for this file. Its SHA-256 is"))
    about_sum = f"{unknown}\n  {state.sha256}\n{language.translate(THE_FILE)}"
    return (state.is_known or click.confirm(about_sum, err=True)) and (
        asked.yes or click.confirm(language.translate(_("Continue?")), err=True)
    )


def _list_missing_answers(asked: DriverRequest, state: DriverState) -> list[str]:
    licensed = state.driver.licence_arguments or any(prompt.licence for prompt in state.driver.prompts)
    wanted = (
        (not asked.yes, _("--yes to carry out the plan")),
        (not state.is_known, _("--sha256 {sha256} if this is the vendor's file", sha256=state.sha256)),
        (
            licensed and not asked.accept_licence,
            _("--accept-licence if you have read and accept the vendor's licence"),
        ),
    )
    return [words for missing, words in wanted if missing]


def _ask_confirmation(question: str, otherwise: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            _("cannot ask for confirmation: no terminal"),
            _("add {missing}, or --dry-run to print the plan only", missing=join(", ", otherwise)),
        )
    return click.confirm(language.translate(question), err=True)


def _install_locked(asked: DriverRequest, state: DriverState) -> str:
    """Inspect the host again under the lock, then install; return what was done, "" if nothing was left to do."""
    try:
        with lock.hold_lock(asked.folder, echo_stderr):
            now = installation.inspect_again(state, asked.recipe.device)
            if now.is_installed:
                return ""
            if installation.find_obstacles(now):
                raise _refusal_error(now)
            return _install_journaled(asked, now)
    except OSError as err:
        why = _("{path}: {reason}", path=err.filename or asked.folder, reason=describe_os_error(err))
        raise StepError(
            why, _("free disk space there, or set ENVCHECK_HOME to a folder that you can write to")
        ) from None


def _install_journaled(asked: DriverRequest, state: DriverState) -> str:
    """Run the installer; write its start, its end (whatever it is) and the whole dialogue to the journal."""
    kept: list[InstallerDialogue] = []
    vouched = asked.plan_context.sum_origin(state) or "confirmed"
    about = {
        "file": str(state.path),
        "sha256": state.sha256,
        "sha256_source": vouched,
        "installed": state.case.site.installed,
    }
    journal.write_entry(
        asked.folder, STEP, "begun", what=_("run {command}", command=presentation.shell_command(state)), **about
    )
    echo_stderr(f"-> {language.translate(_('run {command}', command=presentation.shell_command(state)))}")
    echo = InstallerEcho()
    try:
        did = installation.install_driver(
            state,
            sha256=state.sha256,
            ask_licence=_licence_prompt(state, echo),
            on_dialogue=kept.append,
            on_output=echo.add_output,
            accept_licence=asked.accept_licence,
        )
    except BaseException as err:
        stopped = isinstance(err, (KeyboardInterrupt, click.Abort))
        with contextlib.suppress(OSError):  # report the reason even if the disk is full
            event = "interrupted" if stopped else "failed"
            journal.write_entry(asked.folder, STEP, event, why=str(err)[:4000], **_dialogue_values(kept))
        if isinstance(err, StepError):
            err.next_step = join(
                "; ", filter(None, (err.next_step, _("journal: {folder}", folder=journal.journal_path(asked.folder))))
            )
        raise
    kept_in = lock_entries.record_driver(asked.folder, asked.whole or asked.recipe, state)
    journal.write_entry(asked.folder, STEP, "done", result=did, **_dialogue_values(kept))
    echo_stderr(language.translate(_("SHA-256 {sha256} saved in {kept_in}", sha256=state.sha256, kept_in=kept_in)))
    return did


def _licence_prompt(state: DriverState, echo: InstallerEcho) -> Callable[[str], bool]:
    """Return the function that asks the user to accept what the installer shows."""

    def asks(text: str) -> bool:
        """Show the licence and return the user's answer; UsageError without a terminal."""
        if not sys.stdin.isatty():
            raise UsageError(
                _("the installer asks for acceptance of its licence, but there is no terminal"),
                _("add --accept-licence"),
            )
        echo.show_question(text)
        return click.confirm(
            language.translate(_("Do you accept the licence of {title}?", title=state.driver.title)), err=True
        )

    return asks


def _dialogue_values(kept: list[InstallerDialogue]) -> dict[str, object]:
    return {"dialogue": asdict(kept[-1])} if kept else {}


def _report_declined(asked: DriverRequest, seen: DriverState | None) -> int:
    if asked.as_json:
        click.echo(
            json.dumps(
                presentation.build_document(seen, asked.plan_context, "declined", code=errors.CHECK_FAILED), indent=1
            )
        )
    else:
        click.echo(language.translate(_("declined; nothing was installed")))
    return errors.CHECK_FAILED


def _report_result(asked: DriverRequest, state: DriverState, result: str, did: str = "", code: int = 0) -> None:
    if asked.as_json:
        click.echo(json.dumps(presentation.build_document(state, asked.plan_context, result, did, code), indent=1))
    else:
        click.echo(presentation.render_text(state, asked.plan_context))
