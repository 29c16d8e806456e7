"""docs/lint.md: python -m envcheck.cli.docs_lint > docs/lint.md"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from envcheck.lint.context import tables
from envcheck.lint.table import RULES


def page() -> str:
    """The head, a table an area, and which traps of the published set-ups are found."""
    text = tables.load("page")
    lines = [text["head"].format(count=len(RULES)).strip()]
    for area, rules in groupby(RULES, key=lambda rule: rule.area):
        lines += [
            "",
            f"## {area}",
            "",
            text["areas"][area],
            "",
            "| rule | at worst | says | source |",
            "| --- | --- | --- | --- |",
        ]
        lines += [f"| `{rule.name}` | {rule.severity.name} | {rule.says} | {rule.source} |" for rule in rules]
    return "\n".join([*lines, "", *_traps(text)]) + "\n"


def _traps(text: Any) -> list[str]:
    rows = text["traps"]
    found = sum(bool(row.get("rule")) for row in rows)
    lines = [text["tail"].format(found=found, lost=len(rows) - found, all=len(rows)).strip(), ""]
    lines += ["| set-up, lines | trap | rule, or why it is not found |", "| --- | --- | --- |"]
    for row in rows:
        rules = ", ".join(f"`{name}`" for name in row.get("rule", ())) or f"not found: {row['why']}"
        more = f" ({row['why']})" if row.get("rule") and row.get("why") else ""
        lines.append(f"| {row['where']} | {row['trap']} | {rules}{more} |")
    return lines


if __name__ == "__main__":
    print(page(), end="")
