"""The fleet's report in each format that the report of one machine has: the same names, the same endings."""

from __future__ import annotations

import importlib

from envcheck.fleet import evaluate
from envcheck.fleet.evaluate import Fleet
from envcheck.fleet.report.options import FleetReportOptions

# Each has `render_NAME(fleet, asked)`, imported when it is asked for.
MODULES = {
    "html": "envcheck.fleet.report.page",
    "junit": "envcheck.fleet.report.for_scanners",
    "sarif": "envcheck.fleet.report.for_scanners",
    "prometheus": "envcheck.fleet.report.for_readers",
    "markdown": "envcheck.fleet.report.for_readers",
    "table": "envcheck.fleet.report.summary",
    "json": "envcheck.fleet.report.summary",
}
FOR_PROGRAMS = ("json",)
WITH_FACTS = ("html", "prometheus")  # figures of the cards stand there, too


def render(name: str, fleet: Fleet, asked: FleetReportOptions) -> str:
    """In the language that was chosen, but for programs."""
    said = fleet if name in FOR_PROGRAMS else evaluate.localised(fleet)
    text: str = getattr(importlib.import_module(MODULES[name]), f"render_{name}")(said, asked)
    return text
