"""--list-checks: every line of the table of checks, those of --deep and the site's; --json: for programs."""

from __future__ import annotations

import json

from envcheck.checks import CHECKS, known_issues
from envcheck.core.check import Check
from envcheck.core.version import SCHEMA_VERSION
from envcheck.deep import table


def listed(own: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    """The same for people and for programs; the tests of --deep are for machines without cards, too."""
    return (*CHECKS, *table.checks(cards=False), *own)


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
