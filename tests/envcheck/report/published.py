"""The schemas that others published, and what they have against a document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"
FOLDER = DATA / "published"
JUNIT, SARIF = FOLDER / "junit-10.xsd", FOLDER / "sarif-2.1.0-rtm.5.json"


def wrong_sarif(document: object) -> list[str]:
    """What SARIF's own schema (draft 4), and our stricter one, have against it."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")
    theirs, ours = (json.loads(path.read_text(encoding="utf-8")) for path in (SARIF, DATA / "sarif.json"))
    draft4, newest = jsonschema.Draft4Validator, jsonschema.Draft202012Validator
    validators = (draft4(theirs, format_checker=draft4.FORMAT_CHECKER), newest(ours))
    return [f"{e.json_path}: {e.message[:200]}" for each in validators for e in each.iter_errors(document)]
