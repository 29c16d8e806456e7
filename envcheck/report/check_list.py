"""--list-checks: every line of the table of checks, those of --deep and the site's; --json: for programs."""

from __future__ import annotations

import json

from envcheck.checks import CHECKS, known_issues
from envcheck.core.check import Check
from envcheck.core.language import say
from envcheck.core.language.width import wrap
from envcheck.core.version import SCHEMA_VERSION
from envcheck.deep import table
from envcheck.report.summary import safe


def listed(own: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    """The same for people and for programs; the tests of --deep are for machines without cards, too."""
    return (*CHECKS, *table.checks(cards=False), *own)


def as_text(width: int, own: tuple[Check, ...] = ()) -> str:
    """--list-checks; `own` are the site's."""
    checks = listed(own)
    names = [safe(c.name) for c in checks]
    wide = max(map(len, names)) + 2
    whom = [f"{c.applies_to}{', with --deep' if c.area == table.AREA else ''}" for c in checks]
    told = [f"{safe(say(' '.join(c.says.split())))} [{say(one)}]" for c, one in zip(checks, whom, strict=True)]
    rows = [wrap(words, max(30, width - wide)) for words in told]
    return "\n".join(
        line
        for name, row in zip(names, rows, strict=True)
        for line in (f"{name:{wide}}{row[0]}", *(" " * wide + more for more in row[1:]))
    )


def as_json(own: tuple[Check, ...] = ()) -> str:
    """All that a line holds, and the failures of the field that it tells beforehand; `own` are the site's."""
    symptoms = known_issues.by_check()
    return json.dumps(
        {"schema": SCHEMA_VERSION, "checks": [_line(check, symptoms.get(check.name, ())) for check in listed(own)]},
        indent=2,
    )


def _line(check: Check, symptoms: tuple[str, ...]) -> dict[str, object]:
    return {
        "name": check.name,
        "area": check.area,
        "says": check.says,
        "reads": check.reads,
        "rule": check.rule,
        "remedy": check.fix,
        "source": check.source,
        "cost": check.cost.value,
        "vendors": list(check.vendors),
        "frameworks": list(check.frameworks),
        "models": list(check.models),
        "of_job": check.of_job,
        "catches": list(symptoms),
    }
