"""reference/preflight.md: the preflight checks of train, and the rules that stop a run."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.cli.docs.markdown_table import NOTE, cell, table
from launch.gates import GATES
from launch.gates.waive import NEVER_WAIVED
from launch.watching.stop_rules import RULES, StopRule
from launch.watching.warning_rules import WARNINGS


def page() -> str:
    """Return the page; the promise of a gate is the first paragraph of its docstring."""
    lines = [NOTE, "", "# Preflight checks and stop rules of `envcheck train`", ""]
    lines += ["[How runs are supervised](../explanation/supervision.md) explains both.", "", "## Preflight checks", ""]
    lines += ["All of them run before the training starts; one that fails stops it with exit code 1.", ""]
    rows = []
    for name, gate in GATES.items():
        promise = " ".join((gate.__doc__ or "").partition("\n\n")[0].split())
        rows.append((f"`gate.{name}`", cell(promise), "no" if name in NEVER_WAIVED else "yes"))
    lines += table(("check", "passes when", "can be waived"), rows)
    lines += ["", "## Stop rules", "", "A rule that applies ends the run with exit code 5.", ""]
    lines += table(("rule", "ends the run when", "limits and defaults", "what to do"), list_rules(RULES))
    lines += ["", "## Warnings", "", "A warning is shown once and recorded. With `--stop RULE` it ends the run.", ""]
    lines += table(("rule", "is given when", "limits and defaults", "what to do"), list_rules(WARNINGS))
    return "\n".join(lines) + "\n"


def list_rules(rules: Mapping[str, StopRule]) -> list[tuple[str, str, str, str]]:
    """Return one row for each rule."""
    rows = []
    for name, rule in rules.items():
        limits = ", ".join(f"`{name}.{key}={value:g}`" for key, value in rule.limits.items())
        rows.append((f"`{name}`", cell(rule.title), limits, cell(rule.words)))
    return rows
