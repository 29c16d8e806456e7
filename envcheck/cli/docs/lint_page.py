"""reference/lint-rules.md: the rules of `envcheck lint`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from envcheck.cli.docs.markdown_table import NOTE, PUBLISHED, cell, code, link, source, table
from envcheck.core.lint.rule import LintRule
from envcheck.core.toml_file import load_own_record
from envcheck.lint.render_remarks import name_severity
from envcheck.lint.rule_table import RULES


@dataclass(frozen=True)
class PublishedTrap:
    """A trap of the published set-ups, and the rules that find it, or why none does."""

    where: str
    trap: str
    rule: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class LintPage:
    """lint_rules.toml: the page's own words."""

    head: str
    tail: str
    areas: Mapping[str, str]
    traps: tuple[PublishedTrap, ...]


def read_page() -> LintPage:
    return load_own_record(LintPage, Path(__file__).with_name("lint_rules.toml"))


def page() -> str:
    """Return the page: the head, a section for each rule, and which traps of the published set-ups are found."""
    text = read_page()
    lines = [NOTE, "", text.head.format(count=len(RULES)).strip()]
    for area, rules in groupby(RULES, key=lambda rule: rule.area):
        lines += ["", f"## {area}", "", text.areas[area]]
        lines += [line for rule in rules for line in _section(rule)]
    return "\n".join([*lines, "", *_traps(text)]) + "\n"


def _section(rule: LintRule) -> list[str]:
    """A rule, below the anchor to which findings link."""
    facts = (
        f"- Worst severity: {name_severity(rule.severity)}",
        f"- Source: {source(rule.source)}",
        f"- Waive it: `# envcheck: ignore {rule.name}`",
    )
    return ["", f'<a id="{rule.name}"></a>', "", f"### `{rule.name}`", "", cell(rule.says), "", *facts]


def _traps(text: LintPage) -> list[str]:
    found = sum(bool(row.rule) for row in text.traps)
    counts = {"found": found, "lost": len(text.traps) - found, "all": len(text.traps)}
    rows = [(cell(row.where), cell(row.trap), _rules(row)) for row in text.traps]
    head = ("document", "mistake", "rule, or why none finds it")
    documents = f"The documents: {', '.join(map(link, PUBLISHED))}."
    return [text.tail.format(**counts).strip(), "", documents, "", *table(head, rows)]


def _rules(row: PublishedTrap) -> str:
    rules = _codes(row.rule)
    return f"{rules} ({cell(row.why)})" if rules and row.why else rules or f"none: {cell(row.why)}"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))
