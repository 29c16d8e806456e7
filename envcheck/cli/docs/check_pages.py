"""reference/checks/: a page for each area of the checks of doctor, the thresholds, and the known failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envcheck.checks import CHECKS, known_issues
from envcheck.cli.docs.markdown_table import NOTE, cell, code, source, table
from envcheck.core.check import Check
from envcheck.deep import check_table as deep_table
from envcheck.report.summary import TITLES
from envcheck.settings.thresholds import THRESHOLDS

ALL = (*CHECKS, *deep_table.make_checks())


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    areas = {area: [check for check in ALL if check.area == area] for area in dict.fromkeys(c.area for c in ALL)}
    made = {f"{area}.md": _text(_area(area, checks)) for area, checks in areas.items()}
    more = {"thresholds.md": _text(_thresholds()), "known-issues.md": _text(_known_issues())}
    return {"index.md": _text(_index(areas)), **made, **more}


def _text(lines: Iterable[str]) -> str:
    return "\n".join([NOTE, "", *lines]) + "\n"


def _index(areas: dict[str, list[Check]]) -> Iterator[str]:
    yield "# Checks of `envcheck doctor`"
    yield ""
    yield f"{len(ALL)} checks. [How verdicts are made](../../explanation/verdicts.md) explains their statuses."
    yield ""
    rows = []
    for area, checks in areas.items():
        names = ", ".join(f"`{check.name.partition('.')[2]}`" for check in checks)
        rows.append((f"[{TITLES.get(area, area)}]({area}.md)", str(len(checks)), names))
    yield from table(("area", "checks", "names"), rows)
    yield ""
    yield "See also: [thresholds](thresholds.md), [known failures and what detects them](known-issues.md)."


def _area(area: str, checks: Iterable[Check]) -> Iterator[str]:
    yield f"# {TITLES.get(area, area)}: `{area}.*`"
    for check in checks:
        yield from ("", f"## `{check.name}`", "", cell(check.description), "")
        yield f"- Reads: {cell(check.reads)} ({check.cost.value})"
        yield f"- Result: {cell(check.rule)}"
        yield f"- Fix: {cell(check.fix)}"
        yield f"- Applies to: {cell(check.applies_to)}"
        yield f"- Source: {source(check.source)}"


def _thresholds() -> Iterator[str]:
    yield "# Thresholds"
    yield ""
    yield "`envcheck doctor --show-thresholds` prints them with the values of your `envcheck.toml`;"
    yield "[Write a check](../../how-to/write-a-check.md) shows how to change one."
    yield ""
    rows = [(code(name), f"{known.value:g}", source(known.source)) for name, known in THRESHOLDS.items()]
    yield from table(("name", "default", "reason"), rows)


def _known_issues() -> Iterator[str]:
    yield "# Known failures and what detects them"
    yield ""
    yield "Failures that users of these cards reported, and the checks of `doctor`, rules of `lint` and preflight"
    yield "checks of `train` that detect each one beforehand. Where none can, the last column gives the reason."
    yield ""
    rows = [
        (f.number, cell(f.symptom), cell(known_issues.format_detectors(f))) for f in known_issues.load_known_issues()
    ]
    yield from table(("number", "symptom", "detected by"), rows)
