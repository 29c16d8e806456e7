"""docs/checks/: python -m envcheck.cli.docs_checks docs/checks"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from envcheck.checks import CHECKS, known_issues
from envcheck.core.check import Check
from envcheck.deep import table
from envcheck.report.summary import TITLES

ALL = (*CHECKS, *table.checks())
MADE = "Made from the table of checks by `python -m envcheck.cli.docs_checks docs/checks`."


def pages() -> dict[str, str]:
    """By file: one page an area, one of the failures that they tell, and where to find them."""
    areas = {area: [check for check in ALL if check.area == area] for area in dict.fromkeys(c.area for c in ALL)}
    made = {f"{area}.md": "\n".join(_area(area, checks)) for area, checks in areas.items()}
    return {"README.md": "\n".join(_index(areas)), **made, "field.md": "\n".join(_field())}


def _index(areas: dict[str, list[Check]]) -> Iterator[str]:
    yield "# The checks of `envcheck doctor`"
    yield ""
    yield f"{len(ALL)} checks. Each has one status for each vendor's devices, or for the machine:"
    yield ""
    yield "| status | meaning |"
    yield "| --- | --- |"
    yield "| OK | checked, fine |"
    yield "| NOT_APPLICABLE | the check makes no sense here |"
    yield "| BLOCKED | not checked, because the named check failed first |"
    yield "| UNKNOWN | could not be determined |"
    yield "| WARN | works, but will cost you |"
    yield "| FAIL | training will not start, or will break |"
    yield ""
    yield "All read what the machine shows at once, unless the cost says more."
    yield MADE
    yield ""
    yield "| area | checks | what they look at |"
    yield "| --- | --- | --- |"
    for area, checks in areas.items():
        names = ", ".join(f"`{check.name.partition('.')[2]}`" for check in checks)
        yield f"| [{TITLES.get(area, area)}]({area}.md) | {len(checks)} | {names} |"
    yield ""
    yield "[Failures of the field](field.md): what users lost days to, and what tells each beforehand."
    yield "[Checks of your own, waivers and thresholds](../settings.md); [remedies that are applied](../fixes.md)."
    yield ""


def _area(area: str, checks: Iterable[Check]) -> Iterator[str]:
    yield f"# {TITLES.get(area, area)}: the checks `{area}.*`"
    yield ""
    yield f"{MADE} [All areas](README.md)."
    for c in checks:
        yield f"\n## `{c.name}`\n"
        yield f"{c.says}\n"
        yield f"- reads: {c.reads} ({c.cost.value})"
        yield f"- says: {c.rule}"
        yield f"- to do: {c.fix}"
        yield f"- for: {c.applies_to}"
        yield f"- source: {c.source}"
    yield ""


def _field() -> Iterator[str]:
    yield "# Failures of the field"
    yield ""
    yield "What users of these cards lost days to, and what tells it beforehand: checks of `envcheck doctor`, rules of"
    yield "`envcheck lint`, gates of `envcheck train`; or why no reading can."
    yield "From `envcheck/checks/known_issues.toml`."
    yield ""
    yield "| # | symptom | told by |"
    yield "| --- | --- | --- |"
    for failure in known_issues.failures():
        yield f"| {failure.number} | {failure.symptom} | {known_issues.told_by(failure)} |"
    yield ""


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (place / name).write_text(text, encoding="utf-8")
