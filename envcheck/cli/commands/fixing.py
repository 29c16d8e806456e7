"""doctor --fix and --undo: remedies that are safe, applied to this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import FixOptions, UndoFixOptions
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding


def refuse() -> None:
    """Only this machine can be mended."""
    import os

    from envcheck.collect.host.answers import SYSROOT
    from envcheck.core.errors import UsageError

    if os.environ.get(SYSROOT):
        words = "--fix mends this machine, not a simulated machine"
        raise UsageError(words, "leave --fix out: the report says what to do")


def undo(request: UndoFixOptions) -> int:
    from installers.fixes import session

    return session.undo(_terms(request))


def fix(request: FixOptions, findings: list[Finding], facts: Facts, look: Callable[[], list[Finding]]) -> int:
    """The exit code; `look` judges the machine again, which is the proof."""
    from envcheck.core import language
    from envcheck.core.model import Status
    from installers.fixes import session
    from installers.fixes.proposed import by_hand, proposed

    fixes = proposed(findings, facts)
    code = session.fix(fixes, look, _terms(request), by_hand(findings, facts))
    mended = {one.finding.name for one in fixes}
    left = sorted({f.name for f in findings if f.status is Status.FAIL and not f.waived} - mended)
    if left:
        click.echo(language.say(f"left for you, as envcheck doctor tells: {', '.join(left)}"))
    return max(code, int(bool(left)))


def _terms(request: UndoFixOptions | FixOptions) -> Any:
    from installers.fixes import session

    return session.Terms(dry_run=request.dry_run, yes=request.yes)
