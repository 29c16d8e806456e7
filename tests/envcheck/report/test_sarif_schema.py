"""The published schemas are as they were published, and they refuse what is wrong."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from envcheck.report import formats
from tests.envcheck.report import sarif_schema
from tests.envcheck.report.report_helpers import make_doctor_report

xmlschema = pytest.importorskip("xmlschema", reason="xmlschema is in the extra `test`")


def test_nobody_changed_them() -> None:
    """Each schema file is listed in the README with its checksum."""
    told = dict(
        re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", (sarif_schema.FOLDER / "README.md").read_text(), re.M)
    )
    files = [path for path in sarif_schema.FOLDER.iterdir() if path.name != "README.md"]

    assert told == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert {sarif_schema.JUNIT, sarif_schema.SARIF} == set(files)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0].update(kind="bad"),
        lambda run: run["results"][0].update(ruleIndex="0"),
        lambda run: run["tool"]["driver"].pop("name"),
        lambda run: run["invocations"][0].update(exitCode=1.5),
        lambda run: run["tool"].update(unknown=1),
    ],
    ids=["message", "kind", "index", "name", "code", "key"],
)
def test_wrong_sarif_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    """A key that is missing, unknown or of another kind is found by the published schema."""
    document = json.loads(formats.render("sarif", make_doctor_report("cpu")))
    assert sarif_schema.list_sarif_errors(document) == []
    spoil(document["runs"][0])

    assert sarif_schema.list_sarif_errors(document) != []


@pytest.mark.parametrize(
    ("was", "now"), [("<testcase name=", "<testcase nam="), ("<testsuite ", "<suite "), ("<system-out>", "<output>")]
)
def test_wrong_junit_is_refused(was: str, now: str) -> None:
    """An element or attribute that the published schema does not know is found by it."""
    schema = xmlschema.XMLSchema(str(sarif_schema.JUNIT))
    text = formats.render("junit", make_doctor_report("cpu"))
    closing = text.replace(f"</{was.strip('< >')}>", f"</{now.strip('< >')}>")

    assert schema.is_valid(text)
    assert was in text and not schema.is_valid(closing.replace(was, now))
