"""Gate for the mistakes that the linter finds in a job of the user's own."""

from __future__ import annotations

from envcheck.core.lint.script_model import Remark
from envcheck.core.messages import Message, _, ngettext
from envcheck.core.model import Finding, Status, diagnose
from launch.gates.context import GateContext
from launch.gates.results import build_finding, build_not_applicable, build_ok

SHOWN = 20


def check_lint(s: GateContext) -> Finding:
    """The linter finds no failure in the file or the command of an own job."""
    if s.lint is None:
        return build_not_applicable("gate.lint", _("envcheck writes the command of a recipe"))
    failures = [r for r in s.lint.remarks if r.severity is Status.FAIL]
    doubts = [r for r in s.lint.remarks if r.severity is Status.WARN]
    unread = next((r for r in s.lint.remarks if r.severity is Status.UNKNOWN and r.rule == "shell.syntax"), None)
    if not failures and not doubts and unread:
        return build_finding("gate.lint", None, unread.seen, diagnose(_("Install it."), unread.remedy))
    if not failures and not doubts:
        return build_ok("gate.lint", _("no mistakes found in {name}", name=s.lint.source.name))
    shown = failures or doubts
    seen = (
        ngettext("{count} mistake in {name}", "{count} mistakes in {name}", len(shown), name=s.lint.source.name)
        if failures
        else ngettext("{count} warning in {name}", "{count} warnings in {name}", len(shown), name=s.lint.source.name)
    )
    words, is_file = _("Correct these lines."), not s.options.startswith("--")
    remedy = diagnose(words, f"envcheck lint {s.lint.source.name}") if is_file else diagnose(words)
    lines = tuple(_describe_remark(s, remark) for remark in shown[:SHOWN])
    return build_finding("gate.lint", False, seen, remedy, bad=Status.FAIL if failures else Status.WARN, evidence=lines)


def _describe_remark(s: GateContext, remark: Remark) -> Message:
    assert s.lint is not None
    place = f"{s.lint.source.name}:{s.lint.source.find_position(remark.start)[0]}"
    return _(
        "{place}: {seen} ({rule}). {remedy}", place=place, seen=remark.seen, rule=remark.rule, remedy=remark.remedy
    )
