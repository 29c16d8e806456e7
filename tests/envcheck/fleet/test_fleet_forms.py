"""The fleet's report in each format, read by the schema or the parser that it is for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from defusedxml import ElementTree

from envcheck import schemas
from envcheck.fleet.evaluate import Fleet
from envcheck.fleet.report import forms
from envcheck.report import formats
from envcheck.report.summary import safe
from tests.envcheck.fleet.fleet_reports import faulty, rendered, strange, well
from tests.envcheck.report import published

pytestmark = pytest.mark.slow

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")
xmlschema = pytest.importorskip("xmlschema", reason="xmlschema is in the extra `test`")
parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is in the extra `test`")

each = pytest.mark.parametrize("make", (faulty, well, strange), ids=("faulty", "well", "strange"))
Make = Callable[[], Fleet]


def test_the_formats_are_those_of_one_machine() -> None:
    """Whatever --format takes for one machine it takes for a fleet."""
    assert set(forms.MODULES) == set(formats.FORMATS)


@each
def test_json(make: Make) -> None:
    """The document is as its schema says."""
    found = jsonschema.Draft202012Validator(schemas.schema("fleet")).iter_errors(json.loads(rendered("json", make())))

    assert [f"{e.json_path}: {e.message[:200]}" for e in found] == []


@each
def test_junit(make: Make) -> None:
    """It is valid; each host's findings stand in suites with its name, and the sums are those of the cases."""
    fleet = make()
    text = rendered("junit", fleet)
    root = ElementTree.fromstring(text)

    xmlschema.XMLSchema(str(published.JUNIT)).validate(text)
    assert int(root.get("tests")) == len(root.findall(".//testcase")) == len(fleet.findings)
    assert {suite.get("hostname") for suite in root} <= {"fleet", *(safe(h.name) for h in fleet.hosts)}
    assert sum(int(suite.get("failures")) for suite in root) == int(root.get("failures"))


def test_junit_names_the_host() -> None:
    """A card that is lost fails in that host's suite and in no other."""
    root = ElementTree.fromstring(rendered("junit", faulty()))
    failed = {s.get("name") for s in root for c in s.iter("testcase") if c.get("name", "").startswith("devices.count")
              and c.find("failure") is not None}  # fmt: skip

    assert failed == {"node02.devices"}
    assert {"node06.fleet", "fleet"} <= {suite.get("name") for suite in root}


@each
def test_sarif(make: Make) -> None:
    """It is valid, and each result stands at its rule and names its host."""
    fleet = make()
    document = json.loads(rendered("sarif", fleet))
    run = document["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    places = {r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].split("/")[0] for r in run["results"]}

    assert published.wrong_sarif(document) == []
    assert [rules[r["ruleIndex"]] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert len(run["results"]) == len(fleet.findings)
    assert {h.name for h in fleet.hosts if h.name.startswith("node") and h.findings} <= places


@each
def test_prometheus(make: Make) -> None:
    """Prometheus' own parser reads it, and no series is there twice."""
    families = list(parser.text_string_to_metric_families(rendered("prometheus", make())))
    samples = [(s.name, tuple(sorted(s.labels.items()))) for family in families for s in family.samples]

    assert {family.type for family in families} == {"gauge"}
    assert len(samples) == len(set(samples))


def test_prometheus_figures() -> None:
    """Each series of a host carries its name; who did not answer is 0."""
    families = parser.text_string_to_metric_families(rendered("prometheus", faulty()))
    samples = [sample for family in families for sample in family.samples]
    told = {(s.name, s.labels.get("host"), s.labels.get("check") or s.labels.get("index")): s.value for s in samples}
    status = {(s.labels.get("host"), s.labels["check"]): s.labels["status"] for s in samples if "check" in s.labels}

    assert (told["envcheck_host_answered", "node01", None], told["envcheck_host_answered", "node06", None]) == (1, 0)
    assert status["node02", "devices.count"] == "fail" and status["node02", "links.topology"] == "blocked"
    assert told["envcheck_device_temperature_celsius", "node03", "0"] == 101
    assert status[None, "fleet.cards"] == "fail"


@each
def test_markdown(make: Make) -> None:
    """Verdict, common and odd ones are there; what a host says is no markup."""
    text = rendered("markdown", make())

    assert text.startswith("# envcheck doctor on ")
    assert "<script>" not in text.replace("\\<script\\>", "").split("```")[0]
    assert not any(
        line.startswith(("#", "|")) and "{{7*7}}" in line and "\\<" not in line for line in text.splitlines()
    )


def test_markdown_says_who() -> None:
    """Odd ones and hosts stand with their names, what was tried and is well in a line."""
    text = rendered("markdown", faulty())

    assert "7 × 910B3 on node02, 8 × 910B3 on node\\[01,03-05\\]" in text
    assert "node06: **✗ fleet.reach**: nobody listens" in text
    assert "* fleet.names: 30 names lead where they should" in text
    assert "| driver (Huawei Ascend) | 24\\.1.rc1.b030 | node\\[01-03,05\\] |" in text


def test_with_strict_a_warning_fails() -> None:
    """--strict reaches the formats of CI servers."""
    plain, strict = (ElementTree.fromstring(rendered("junit", faulty(), strict)) for strict in (False, True))

    assert int(strict.get("failures")) > int(plain.get("failures"))


def test_who_is_named_is_not_well() -> None:
    """A host that is unlike the others is not counted as well, and the document says which finding names it."""
    said = json.loads(rendered("json", faulty()))
    named = {name: one["named"] for name, one in said["hosts"].items() if one["named"]}

    assert named == {"node02": ["fleet.cards", "fleet.clock"], "node04": ["fleet.driver"]}
    assert "(2 of 6 hosts are well;" in rendered("table", faulty())
