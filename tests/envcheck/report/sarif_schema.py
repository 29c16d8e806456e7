"""The schemas that others published, and what they have against a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "data/published"
JUNIT, SARIF = FOLDER / "junit-10.xsd", FOLDER / "sarif-2.1.0-rtm.5.json"


def list_sarif_errors(document: Any) -> list[str]:
    """What SARIF's own schema (draft 4) has against it, and the standard's text: 3.27.10, a level is of kind fail."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")
    draft4 = jsonschema.Draft4Validator
    schema = draft4(json.loads(SARIF.read_text(encoding="utf-8")), format_checker=draft4.FORMAT_CHECKER)
    found = [f"{e.json_path}: {e.message[:200]}" for e in schema.iter_errors(document)]
    results = [result for run in document["runs"] for result in run["results"]]
    found += [f"level of {r['ruleId']}" for r in results if (r["kind"] == "fail") == (r["level"] == "none")]
    return found + [f"no words of {r['ruleId']}" for r in results if not r.get("message", {}).get("text")]
