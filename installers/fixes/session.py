"""`doctor --fix`: show what would be done, ask, do it, look again; and `--undo`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from envcheck.core import paths
from envcheck.core.errors import FIT, UNFIT, StepError, UsageError
from envcheck.core.language import say
from envcheck.core.model import Finding, Status
from envcheck.core.signals import heard_by, interrupt
from installers.fixes import deeds
from installers.fixes.proposed import ByHand, Fix
from installers.state import journal, lock

Look = Callable[[], list[Finding]]


@dataclass(frozen=True)
class Terms:
    """`dry_run` shows and stops; `yes` asks nothing, and leaves what wants an answer of its own undone."""

    dry_run: bool = False
    yes: bool = False


def folder() -> Path:
    return paths.home() / "fixes"


def fix(fixes: Sequence[Fix], look: Look, terms: Terms, by_hand: Sequence[ByHand] = ()) -> int:
    """The exit code: 0 when what was wrong is well now, 1 when something is left.  StepError where a deed failed."""
    mine = [one for one in fixes if not one.root or os.geteuid() == 0]
    _show(mine, [one for one in fixes if one not in mine], by_hand)
    if terms.dry_run or not mine:
        return UNFIT if fixes or by_hand else FIT
    chosen = _agreed(mine, terms)
    if not chosen:
        _tell("nothing was done")
        return UNFIT
    with heard_by(interrupt), lock.held(folder(), click.echo):
        for one in chosen:
            _do(one)
    return max(_proved(chosen, fixes, look), UNFIT if by_hand else FIT)


def undo(terms: Terms) -> int:
    """What the journal holds and nobody took back, the last first."""
    entries = journal.made(folder())[::-1]
    known = [(entry, deed) for entry in entries if (deed := deeds.read(entry))]
    if not known:
        _tell("there is nothing to take back")
        return FIT
    _tell("To be taken back:")
    for _, deed in known:
        _tell(f"  {deed.words}")
    if terms.dry_run:
        return FIT
    if not (terms.yes or _asked("Take this back?")):
        _tell("nothing was done")
        return UNFIT
    with heard_by(interrupt), lock.held(folder(), click.echo):
        for entry, deed in known:
            said = deed.back()
            journal.write(folder(), "fix", "undone", deed=entry.get("deed"), said=said)
            _tell(f"  {say(deed.words)}{say(': ')}{say(said or 'taken back')}")
    return FIT


def _show(mine: Sequence[Fix], others: Sequence[Fix], by_hand: Sequence[ByHand]) -> None:
    for title, fixes in (("To be done:", mine), ("Wants root, so do it yourself:", others)):
        if fixes:
            _tell(title)
        for one in fixes:
            _tell(f"  {one.finding.name}{say(': ')}{say(one.finding.seen)}")
            _tell(f"    then {one.deed.words}")
            click.echo(f"    {one.deed.command}")
    if by_hand:
        _tell("Left for you, since it is not safe to do:")
    for left in by_hand:
        _tell(f"  {left.finding.name}{say(': ')}{say(left.seen)}")
        click.echo(f"    {left.command}")
    if not (mine or others or by_hand):
        _tell("No finding has a remedy that is safe to apply; the report says what to do.")


def _agreed(mine: Sequence[Fix], terms: Terms) -> list[Fix]:
    """A process is ended after a yes to that one; the rest after one question for all."""
    plain, asking = [one for one in mine if not one.asks], [one for one in mine if one.asks]
    question = "Do this, but for processes?" if asking else "Do this?"
    chosen = plain if plain and (terms.yes or _asked(question)) else []
    for one in asking:
        if terms.yes or not sys.stdin.isatty():
            _tell(f"left alone, since it wants an answer of its own: {one.deed.command}", err=True)
        elif _asked(f"End process {one.deed.words.removeprefix('process ').removesuffix(' is ended')}?"):
            chosen.append(one)
    return chosen


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", "add --yes to do what is shown, or --dry-run to only see it")
    return click.confirm(say(question))


def _tell(text: str, err: bool = False) -> None:
    click.echo(say(text), err=err)


def _do(one: Fix) -> None:
    """Noted before it is done: a run that is cut off leaves what an undo knows of."""
    noted = deeds.noted(one.deed)
    journal.write(folder(), "fix", "made", **noted)
    try:
        one.deed.do()
    except (OSError, StepError) as err:
        journal.write(folder(), "fix", "undone", deed=noted["deed"], said="failed")
        words, then = (err.message, err.next_step) if isinstance(err, StepError) else (str(err), one.deed.command)
        raise StepError(f"{one.finding.name}: {words}", f"{then} (journal: {journal.path(folder())})") from None
    _tell(f"  done: {one.deed.words}")


def _proved(done: Sequence[Fix], all_: Sequence[Fix], look: Look) -> int:
    """The checks are asked again; what is as wrong as before is said."""
    names = {one.finding.name for one in done}
    later = {one.finding.name for one in done if isinstance(one.deed, deeds.Unset)}  # a login's, not this shell's
    now = [f for f in look() if f.name in names - later]
    wrong = [f for f in now if f.status in (Status.WARN, Status.FAIL)]
    for finding in now:
        proof = say("still: " if finding in wrong else "proved: ")
        click.echo(f"  {proof}{finding.name}{say(': ')}{say(finding.seen)}")
    for name in sorted(later):
        _tell(f"  {name}: log in anew, or unset them here")
    _tell("to take it back: envcheck doctor --undo")
    return UNFIT if wrong or len(done) < len(all_) else FIT
