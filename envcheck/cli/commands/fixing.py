"""doctor --fix and --undo: remedies that are safe, applied to this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding


def refuse(asked: dict[str, Any]) -> None:
    """Only this machine can be mended, and only in words."""
    import os

    from envcheck.collect.machine import SYSROOT
    from envcheck.core.errors import UsageError

    if asked["replay"] or os.environ.get(SYSROOT):
        what = "a recording" if asked["replay"] else "a simulated machine"
        raise UsageError(f"--fix mends this machine, not {what}", "leave --fix out: the report says what to do")
    if asked["as_json"]:
        raise UsageError("--fix asks, and --json does not", "leave --json out; the journal is one document a line")


def undo(asked: dict[str, Any]) -> int:
    from installers.fixes import session

    return session.undo(_terms(asked))


def fix(asked: dict[str, Any], findings: list[Finding], facts: Facts, look: Callable[[], list[Finding]]) -> int:
    """The exit code; `look` judges the machine again, which is the proof."""
    from envcheck.core import language
    from envcheck.core.model import Status
    from installers.fixes import session
    from installers.fixes.proposed import by_hand, proposed

    fixes = proposed(findings, facts)
    code = session.fix(fixes, look, _terms(asked), by_hand(findings, facts))
    mended = {one.finding.name for one in fixes}
    left = sorted({f.name for f in findings if f.status is Status.FAIL and not f.waived} - mended)
    if left:
        click.echo(language.say(f"left for you, as envcheck doctor tells: {', '.join(left)}"))
    return max(code, int(bool(left)))


def _terms(asked: dict[str, Any]) -> Any:
    from installers.fixes import session

    return session.Terms(dry_run=asked["dry_run"], yes=asked["yes"])
