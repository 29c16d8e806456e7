"""--list-checks: all checks, including those of --deep and of the site, as text or JSON."""

from __future__ import annotations

import json

from envcheck.checks import CHECKS, known_issues
from envcheck.core.check import Check
from envcheck.core.language import translate
from envcheck.core.language.width import wrap_text
from envcheck.core.messages import _
from envcheck.core.version import SCHEMA_VERSION
from envcheck.deep import check_table
from envcheck.report.summary import safe


def list_checks(own: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    """Return all checks; the tests of --deep are listed on machines without accelerators too."""
    return (*CHECKS, *check_table.make_checks(cards=False), *own)


def as_text(width: int, own: tuple[Check, ...] = ()) -> str:
    """Return the list for a terminal of this width; `own` are the site's checks."""
    checks = list_checks(own)
    names = [safe(c.name) for c in checks]
    wide = max(map(len, names)) + 2
    whom = [
        _("{hosts}, with --deep", hosts=c.applies_to) if c.area == check_table.AREA else c.applies_to for c in checks
    ]
    descriptions = [
        f"{safe(translate(' '.join(c.description.split())))} [{translate(one)}]"
        for c, one in zip(checks, whom, strict=True)
    ]
    rows = [wrap_text(words, max(30, width - wide)) for words in descriptions]
    return "\n".join(
        line
        for name, row in zip(names, rows, strict=True)
        for line in (f"{name:{wide}}{row[0]}", *(" " * wide + more for more in row[1:]))
    )


def as_json(own: tuple[Check, ...] = ()) -> str:
    """Return all columns of the table and the known issues that each check detects; `own` are the site's checks."""
    symptoms = known_issues.symptoms_by_check()
    return json.dumps(
        {
            "schema": SCHEMA_VERSION,
            "checks": [_describe_check(check, symptoms.get(check.name, ())) for check in list_checks(own)],
        },
        indent=2,
    )


def _describe_check(check: Check, symptoms: tuple[str, ...]) -> dict[str, object]:
    return {
        "name": check.name,
        "area": check.area,
        "description": check.description,
        "reads": check.reads,
        "rule": check.rule,
        "remedy": check.fix,
        "source": check.source,
        "cost": check.cost.value,
        "vendors": list(check.vendors),
        "frameworks": list(check.frameworks),
        "models": list(check.models),
        "requires_job": check.of_job,
        "known_failures": list(symptoms),
    }
