"""doctor --fix and --undo: apply safe fixes on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from envcheck.core.messages import _, join

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import FixOptions, UndoFixOptions
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding


def refuse_simulated_machine() -> None:
    """Raise UsageError on a simulated machine: only this machine can be fixed."""
    import os

    from envcheck.collect.host.answers import SYSROOT
    from envcheck.core.errors import UsageError

    if os.environ.get(SYSROOT):
        words = _("--fix changes this machine, not a simulated machine")
        raise UsageError(words, _("remove --fix; the report lists the fixes"))


def undo_fixes(request: UndoFixOptions) -> int:
    from installers.fixes import remediation

    return remediation.undo_fixes(_build_terms(request))


def apply_fixes(request: FixOptions, findings: list[Finding], facts: Facts, look: Callable[[], list[Finding]]) -> int:
    """Apply the fixes and return the exit code; `look` runs the checks again as verification."""
    from envcheck.core import language
    from envcheck.core.model import Status
    from installers.fixes import remediation
    from installers.fixes.proposals import list_manual_fixes, propose_fixes

    fixes = propose_fixes(findings, facts)
    code = remediation.apply_fixes(fixes, look, _build_terms(request), list_manual_fixes(findings, facts))
    mended = {one.finding.name for one in fixes}
    left = sorted({f.name for f in findings if f.status is Status.FAIL and not f.waived} - mended)
    if left:
        click.echo(
            language.translate(
                _("you must do these yourself, as envcheck doctor describes: {left}", left=join(", ", left))
            )
        )
    return max(code, int(bool(left)))


def _build_terms(request: UndoFixOptions | FixOptions) -> Any:
    from installers.fixes import remediation

    return remediation.RemediationOptions(dry_run=request.dry_run, yes=request.yes)
