"""docs/lint.md: python -m envcheck.cli.docs_lint > docs/lint.md"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from envcheck.core.toml_file import own_record
from envcheck.lint.context.tables import FOLDER
from envcheck.lint.table import RULES


@dataclass(frozen=True)
class PublishedTrap:
    """A trap of the published set-ups, and the rules that find it, or why none does."""

    where: str
    trap: str
    rule: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class LintPage:
    """data/page.toml: the page's own words."""

    head: str
    tail: str
    areas: Mapping[str, str]
    traps: tuple[PublishedTrap, ...]


def read_page() -> LintPage:
    return own_record(LintPage, FOLDER / "page.toml")


def page() -> str:
    """The head, a table an area, and which traps of the published set-ups are found."""
    text = read_page()
    lines = [text.head.format(count=len(RULES)).strip()]
    for area, rules in groupby(RULES, key=lambda rule: rule.area):
        lines += [
            "",
            f"## {area}",
            "",
            text.areas[area],
            "",
            "| rule | at worst | says | source |",
            "| --- | --- | --- | --- |",
        ]
        lines += [f"| `{rule.name}` | {rule.severity.name} | {rule.says} | {rule.source} |" for rule in rules]
    return "\n".join([*lines, "", *_traps(text)]) + "\n"


def _traps(text: LintPage) -> list[str]:
    rows = text.traps
    found = sum(bool(row.rule) for row in rows)
    lines = [text.tail.format(found=found, lost=len(rows) - found, all=len(rows)).strip(), ""]
    lines += ["| set-up, lines | trap | rule, or why it is not found |", "| --- | --- | --- |"]
    for row in rows:
        rules = ", ".join(f"`{name}`" for name in row.rule) or f"not found: {row.why}"
        more = f" ({row.why})" if row.rule and row.why else ""
        lines.append(f"| {row.where} | {row.trap} | {rules}{more} |")
    return lines


if __name__ == "__main__":
    print(page(), end="")
