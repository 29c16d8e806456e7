"""`doctor --fix`: show the changes, ask, apply, run the checks again; and `--undo`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from envcheck.core import paths
from envcheck.core.errors import CHECK_FAILED, SUCCESS, StepError, UsageError, describe_os_error
from envcheck.core.language import translate
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Finding, Status
from envcheck.core.signals import handle_signals, raise_interrupt
from installers.fixes import actions
from installers.fixes.proposals import ManualFix, ProposedFix
from installers.state import journal, lock

Look = Callable[[], list[Finding]]


@dataclass(frozen=True)
class RemediationOptions:
    """`dry_run` only shows the changes; `yes` asks nothing and skips what needs its own confirmation."""

    dry_run: bool = False
    yes: bool = False


def fixes_folder() -> Path:
    """Return the folder of the journal of fixes."""
    return paths.envcheck_home() / "fixes"


def apply_fixes(
    fixes: Sequence[ProposedFix], look: Look, terms: RemediationOptions, manual: Sequence[ManualFix] = ()
) -> int:
    """Return the exit code: 0 if all problems are fixed, 1 if some remain.  StepError if an action failed."""
    mine = [one for one in fixes if not one.root or os.geteuid() == 0]
    _show_fixes(mine, [one for one in fixes if one not in mine], manual)
    if terms.dry_run or not mine:
        return CHECK_FAILED if fixes or manual else SUCCESS
    chosen = _choose_fixes(mine, terms)
    if not chosen:
        _print_text(_("No changes made."))
        return CHECK_FAILED
    with handle_signals(raise_interrupt), lock.hold_lock(fixes_folder(), click.echo):
        for one in chosen:
            _apply_fix(one)
    return max(_verify_fixes(chosen, fixes, look), CHECK_FAILED if manual else SUCCESS)


def undo_fixes(terms: RemediationOptions) -> int:
    """Undo what the journal lists and was not undone yet, the last first."""
    entries = journal.list_made(fixes_folder())[::-1]
    known = [(entry, action) for entry in entries if (action := actions.parse_journal_entry(entry))]
    if not known:
        _print_text(_("Nothing to undo."))
        return SUCCESS
    _print_text(_("Changes to undo:"))
    for _unused, action in known:
        _print_text(_("  {action}", action=action.description))
    if terms.dry_run:
        return SUCCESS
    if not (terms.yes or _ask_confirmation(_("Undo these changes?"))):
        _print_text(_("No changes made."))
        return CHECK_FAILED
    with handle_signals(raise_interrupt), lock.hold_lock(fixes_folder(), click.echo):
        for entry, action in known:
            kept = action.undo_action()
            journal.write_entry(fixes_folder(), "fix", "undone", deed=entry.get("deed"), said=kept)
            _print_text(_("  {action}: {result}", action=action.description, result=kept or _("undone")))
    return SUCCESS


def _show_fixes(mine: Sequence[ProposedFix], others: Sequence[ProposedFix], manual: Sequence[ManualFix]) -> None:
    for title, fixes in ((_("Changes to make:"), mine), (_("Changes that require root (run these yourself):"), others)):
        if fixes:
            _print_text(title)
        for one in fixes:
            _print_text(_("  {check}: {problem}", check=one.finding.name, problem=one.finding.seen))
            _print_text(_("    change: {action}", action=one.action.description))
            click.echo(f"    {one.action.shell_command}")
    if manual:
        _print_text(_("Manual changes (not safe to automate):"))
    for left in manual:
        _print_text(_("  {check}: {problem}", check=left.finding.name, problem=left.seen))
        click.echo(f"    {left.command}")
    if not (mine or others or manual):
        _print_text(
            _("No problem has a fix that is safe to apply automatically; follow the instructions in the report.")
        )


def _choose_fixes(mine: Sequence[ProposedFix], terms: RemediationOptions) -> list[ProposedFix]:
    """Ask once for all fixes, and separately before ending each process."""
    plain, asking = [one for one in mine if not one.asks], [one for one in mine if one.asks]
    question = _("Continue? (Processes are confirmed one by one.)") if asking else _("Continue?")
    chosen = plain if plain and (terms.yes or _ask_confirmation(question)) else []
    for one in asking:
        if terms.yes or not sys.stdin.isatty():
            _print_text(
                _("skipped, requires separate confirmation: {command}", command=one.action.shell_command),
                err=True,
            )
        elif _ask_confirmation(_("{action}?", action=one.action.description)):
            chosen.append(one)
    return chosen


def _ask_confirmation(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            _("cannot ask for confirmation: no terminal"),
            _("add --yes to apply the changes, or --dry-run to print them only"),
        )
    return click.confirm(translate(question))


def _print_text(text: str, err: bool = False) -> None:
    click.echo(translate(text), err=err)


def _apply_fix(one: ProposedFix) -> None:
    """Journal the action before it is applied, so that an interrupted run can be undone."""
    noted = actions.build_journal_entry(one.action)
    journal.write_entry(fixes_folder(), "fix", "made", **noted)
    try:
        one.action.apply_action()
    except (OSError, StepError) as err:
        journal.write_entry(fixes_folder(), "fix", "undone", deed=noted["deed"], said="failed")
        if isinstance(err, StepError):
            reason, then = err.message, err.next_step
        else:
            reason, then = describe_os_error(err), verbatim(one.action.shell_command)
        raise StepError(
            _("{name}: {reason}", name=one.finding.name, reason=reason),
            _("{then} (journal: {path})", then=then, path=journal.journal_path(fixes_folder())),
        ) from None
    _print_text(_("  done: {action}", action=one.action.description))


def _verify_fixes(done: Sequence[ProposedFix], all_: Sequence[ProposedFix], look: Look) -> int:
    """Run the checks again and report which findings remain."""
    names = {one.finding.name for one in done}
    later = {one.finding.name for one in done if isinstance(one.action, actions.CommentOutLines)}  # at next login
    now = [f for f in look() if f.name in names - later]
    wrong = [f for f in now if f.status in (Status.WARN, Status.FAIL)]
    for finding in now:
        _print_text(
            _("  not fixed: {check}: {problem}", check=finding.name, problem=finding.seen)
            if finding in wrong
            else _("  fixed: {check}: {result}", check=finding.name, result=finding.seen)
        )
    for name in sorted(later):
        _print_text(_("  {name}: log in again, or unset the variables in this shell", name=name))
    _print_text(_("To undo these changes, run `envcheck doctor --undo`."))
    return CHECK_FAILED if wrong or len(done) < len(all_) else SUCCESS
