"""--list-checks --json: every line of the table of checks, for programs."""

from __future__ import annotations

import json

from envcheck.checks import CHECKS, field
from envcheck.checks.check import Check

SCHEMA = 1


def as_json(own: tuple[Check, ...] = ()) -> str:
    """All that a line holds, and the failures of the field that it tells beforehand; `own` are the site's."""
    symptoms = field.by_check()
    return json.dumps(
        {"schema": SCHEMA, "checks": [_line(check, symptoms.get(check.name, ())) for check in (*CHECKS, *own)]},
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
