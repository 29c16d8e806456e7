"""Show a driver installation: the plan as text or JSON values, and the installer's output as it arrives."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from envcheck.core.errors import outcome_fields
from envcheck.core.language import translate as spoken
from envcheck.core.messages import NOTHING, Message, _, join, verbatim
from envcheck.core.secrets import redact_text
from envcheck.core.signals import tolerate_lost_output
from envcheck.core.units import MIB, format_mib
from envcheck.core.version import SCHEMA_VERSION
from installers.drivers import installation
from installers.drivers.dialogue import clean_output
from installers.drivers.installation import DriverState
from installers.output.plan_text import MARGIN, fold_lines, format_row
from installers.plan.requirement import Obstacle

SHOWN = 2000  # lines of the installer's output on the screen; the journal has all
OPEN = 1 << 16  # characters kept of an unfinished line


@dataclass(frozen=True)
class DriverPlanContext:
    """What the plan shows besides the inspected state: recipe, journal folder, note, and the origin of the checksum."""

    recipe: str
    folder: Path
    note: Message = NOTHING
    accept_licence: bool = False
    given: bool = False
    locked: bool = False

    def sum_origin(self, state: DriverState) -> str:
        """Return where the file's checksum comes from: locked, given, published, or "" if unknown."""
        if not state.is_known:
            return ""
        return "locked" if self.locked else "given" if self.given else "published"


def render_text(state: DriverState, facts: DriverPlanContext) -> str:
    """Return the plan as text."""
    return fold_lines(_render_lines(state, facts))


def _render_lines(state: DriverState, facts: DriverPlanContext) -> Iterator[str]:
    what = f"{spoken(state.driver.title)} {state.version}".rstrip()
    size = format_mib(state.case.file.size_bytes / MIB)
    yield spoken(
        _(
            "{installer} for {recipe}, from {source} ({size})",
            installer=what,
            recipe=facts.recipe,
            source=state.path,
            size=size,
        )
    )
    if facts.note:
        yield f"{MARGIN}{spoken(facts.note)}"
    for words in installation.list_satisfied(state):
        yield format_row(spoken(_("ok")), spoken(words))
    if state.is_installed:
        yield f"  {spoken(_('nothing to do: this version is installed'))}"
        return
    for words in installation.list_doubts(state):
        yield format_row(spoken(_("not checked")), spoken(words))
    yield format_row(spoken(_("step {number}", number=1)), spoken(_("run {command}", command=shell_command(state))))
    yield MARGIN + spoken(
        _("reason: {why}; changes: {changes}", why=explain_reason(state), changes=describe_changes(state))
    )
    yield MARGIN + spoken(_("root: {root}; undo: {undo}", root=_("required"), undo=describe_undo(state)))
    yield format_row(spoken(_("licence")), spoken(describe_licence(state, facts)))
    yield format_row(spoken(_("reboot")), spoken(describe_reboot(state)))
    for words in state.driver.caution:
        yield format_row(spoken(_("note")), spoken(words))
    for obstacle in installation.find_obstacles(state):
        yield format_row(spoken(_("blocked")), spoken(obstacle.why))
        yield f"{MARGIN}{spoken(_('next: '))}{spoken(obstacle.remedy)}"


def shell_command(state: DriverState) -> str:
    """Return the installer's command line, quoted for a shell."""
    return shlex.join(installation.build_argv(state))


def explain_reason(state: DriverState) -> Message:
    """Return the installed and the required version: the reason for the step."""
    return installation.describe_versions(state.case.site.installed, state.case.minimum)


def describe_changes(state: DriverState) -> Message:
    """Return what the installer changes on this host."""
    if not state.driver.modules:
        return _("files of the vendor's installer on this host")
    return _(
        "files of the vendor's installer on this host, and kernel modules {modules}",
        modules=join(", ", state.driver.modules),
    )


def describe_undo(state: DriverState) -> Message:
    """Return the vendor's uninstall command, or that there is none."""
    return verbatim(" && ".join(state.driver.undo)) or _("the vendor provides no uninstall command")


def describe_licence(state: DriverState, facts: DriverPlanContext) -> Message:
    """Return the licence and how it is accepted."""
    licence = verbatim(state.driver.licence) or _("shown by the installer, if it has one")
    if facts.accept_licence:
        return _("{licence}; accepted with --accept-licence", licence=licence)
    return _("{licence}; envcheck asks you to accept it", licence=licence)


def describe_reboot(state: DriverState) -> Message:
    """Return whether a reboot may be required."""
    return (
        _("may be required; envcheck reports it after the installation")
        if state.driver.reboot
        else _("not known to be required")
    )


def _what_is_left(first: Obstacle | None, did: str) -> tuple[str, str]:
    """Return why the command is not done, and the next step."""
    if installation.requires_reboot(did):
        return did, _("reboot this machine")
    return (first.why, first.remedy) if first else (_("nothing was installed"), "")


def build_document(
    state: DriverState | None, facts: DriverPlanContext, result: str, did: str = "", code: int = 0
) -> dict[str, Any]:
    """Return the document of --json: the shape of `provision --json`, plus a `driver` object."""
    obstacles = installation.find_obstacles(state) if state and not state.is_installed else ()
    first = next(iter(obstacles), None)
    return {
        "schema": SCHEMA_VERSION,
        "verb": "provision",
        "result": result,
        **outcome_fields(code, *_what_is_left(first, did)),
        "recipe": facts.recipe,
        "folder": str(facts.folder),
        "satisfied": list(installation.list_satisfied(state)) if state else [],
        "undetermined": list(installation.list_doubts(state)) if state else [],
        "steps": [_step_values(state)] if state and not state.is_installed else [],
        "manual_steps": [],
        "obstacle": asdict(obstacles[0]) if obstacles else None,
        "obstacles": [asdict(each) for each in obstacles],
        "performed": [{"step": "driver", "summary": did}] if did else [],
        "driver": _driver_values(state, facts) if state else None,
    }


def _step_values(state: DriverState) -> Mapping[str, object]:
    return {
        "name": "driver",
        "title": _("run {command}", command=shell_command(state)),
        "why": explain_reason(state),
        "changes": describe_changes(state),
        "undo": describe_undo(state),
        "root": True,
    }


def _driver_values(state: DriverState, facts: DriverPlanContext) -> Mapping[str, object]:
    return {
        "title": state.driver.title,
        "file": str(state.path),
        "size_bytes": state.case.file.size_bytes,
        "version": state.version,
        "installed": state.case.site.installed,
        "minimum": state.case.minimum,
        "sha256": state.sha256,
        "sha256_source": facts.sum_origin(state),
        "argv": list(installation.build_argv(state)),
        "licence": state.driver.licence,
        "reboot": bool(state.driver.reboot),
        "undo": list(state.driver.undo),
        "caution": list(state.driver.caution),
        "log": state.driver.log,
    }


class InstallerEcho:
    """Print the installer's output on standard error, in whole lines as they arrive."""

    def __init__(self) -> None:
        self.open, self.lines = "", 0

    def add_output(self, text: str) -> None:
        """Print the complete lines of `text`; keep the rest until its line ends."""
        *lines, rest = (self.open + text).split("\n")
        self.open = rest[-OPEN:]
        for line in lines:
            self.show_line(line)

    def show_line(self, line: str) -> None:
        """Print one line, redacted; after SHOWN lines only a note."""
        self.lines += 1
        if self.lines <= SHOWN:
            echo_stderr(f"   | {redact_text(clean_output(line))}")
        elif self.lines == SHOWN + 1:
            echo_stderr(f"   | {spoken(_('... (the journal has the rest)'))}")

    def show_question(self, text: str) -> None:
        """Show `text`, the output that the licence question refers to, if not all of it was printed already."""
        if self.lines == 0 or self.lines > SHOWN:
            echo_stderr(redact_text(text))
        elif self.open:
            echo_stderr(f"   | {redact_text(clean_output(self.open))}")
        self.open = ""


def echo_stderr(text: str) -> None:
    """Print the text on standard error; a closed terminal does not stop the installation."""
    with tolerate_lost_output():
        click.echo(text, err=True)
