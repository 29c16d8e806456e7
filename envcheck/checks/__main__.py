"""docs/checks.md: python -m envcheck.checks > docs/checks.md"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from envcheck.checks import CHECKS, field
from envcheck.checks.check import Check


def page() -> str:
    """One table an area, out of the table of checks, and one of the failures that they tell."""
    lines = [
        "# The checks of `envcheck doctor`",
        "",
        f"{len(CHECKS)} checks, made from the table in `envcheck/checks/__init__.py` by `python -m envcheck.checks`.",
        "Each answers OK, SKIP (does not apply), UNKNOWN (could not be told), WARN or FAIL, these with a remedy.",
        "All read what the machine shows at once, unless the cost says more.",
    ]
    for area, checks in groupby(CHECKS, key=lambda check: check.area):
        lines += ["", f"## {area}", "", *_area(checks)]
    return "\n".join([*lines, "", *_field()]) + "\n"


def _area(checks: Iterable[Check]) -> Iterator[str]:
    yield "| check | says | reads | when | what to do | for | cost | source |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for c in checks:
        told = (c.says, c.reads, c.rule, c.fix, c.applies_to, c.cost.value, c.source)
        yield f"| `{c.name}` | {' | '.join(told)} |"


def _field() -> Iterator[str]:
    yield "## Failures of the field"
    yield ""
    yield "What users of these cards lost days to, and what tells it beforehand: checks of `envcheck doctor`, rules of"
    yield "`envcheck lint`, gates of `envcheck train`; or why no reading can.  From `envcheck/checks/field.toml`."
    yield ""
    yield "| # | symptom | told by |"
    yield "| --- | --- | --- |"
    for failure in field.failures():
        yield f"| {failure.number} | {failure.symptom} | {field.told_by(failure)} |"


if __name__ == "__main__":
    print(page(), end="")
