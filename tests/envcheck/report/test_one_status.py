"""A check has one status for each vendor's devices, or for the machine, and every format says the same."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from defusedxml import ElementTree

from envcheck import checks
from envcheck.collect import facts
from envcheck.core.model import Finding, Status
from envcheck.report import Report, Style, formats
from envcheck.report.markdown import COLUMNS
from envcheck.report.style import MARKS
from envcheck.report.summary import title
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import MACHINES, simulated
from tests.envcheck.checks.test_doctor_machines import PAIRS
from tests.envcheck.report.report_helpers import NOW, machine_report

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is in the extra `test`")

Said = dict[tuple[str, str], str]  # check and vendor -> status
OF_MARK = {mark: status.name for status, mark in MARKS.items()}
PASSED = ("OK", "WARN")  # JUnit's cases without an element say it in their output


def of_json(text: str) -> Said:
    return _once(((f["name"], f["device"]), f["status"]) for f in json.loads(text)["findings"])


def of_junit(text: str) -> Said:
    return _once(_of_case(case) for case in ElementTree.fromstring(text).iter("testcase"))


def _of_case(case):  # type: ignore[no-untyped-def]
    name, _, device = case.get("name").rstrip(")").partition(" (")
    (said,) = case
    return (name, device), said.get("type") or said.text.partition(":")[0]


def of_sarif(text: str) -> Said:
    kinds = {("pass", "none"): "OK", ("notApplicable", "none"): "NOT_APPLICABLE", ("open", "none"): "BLOCKED",
             ("review", "none"): "UNKNOWN", ("fail", "warning"): "WARN", ("fail", "error"): "FAIL"}  # fmt: skip
    return _once(
        ((r["ruleId"], _device(r)), kinds[r["kind"], r["level"]]) for r in json.loads(text)["runs"][0]["results"]
    )


def _device(result):  # type: ignore[no-untyped-def]
    place = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
    return place.partition("/")[2]


def of_prometheus(text: str) -> Said:
    samples = [s for family in parser.text_string_to_metric_families(text) for s in family.samples]
    told = [s.labels for s in samples if s.name == "envcheck_check_status"]
    return _once(((labels["check"], labels["device"]), labels["status"].upper()) for labels in told)


def _once(pairs) -> Said:  # type: ignore[no-untyped-def]
    told = list(pairs)
    assert [key for key, n in Counter(key for key, _ in told).items() if n > 1] == []
    return dict(told)


READ_WHOLE = {"json": of_json, "junit": of_junit, "sarif": of_sarif, "prometheus": of_prometheus}
_HEADING = re.compile(r"^(?:\* )?\*\*(\S) ([\w.\\]+)\*\*(?: \(([^)]+)\))?: ", re.MULTILINE)
_VENDOR = {known.title: name for name, known in VENDORS.items()}


def of_markdown(text: str) -> Said:
    """What failed, warns, is unknown or blocked is named; the rest is counted."""
    found = [(m[2].replace("\\", ""), _VENDOR.get(m[3] or "", ""), OF_MARK[m[1]]) for m in _HEADING.finditer(text)]
    told = {(name, device): status for name, device, status in found}
    assert len(told) == len({(name, device, status) for name, device, status in found})
    return told


def counts_of_markdown(text: str) -> dict[str, list[int]]:
    rows = re.findall(r"^\| \S \| ([^|]+) \| ([\d |]+) \|$", text, re.MULTILINE)
    return {area: [int(n) for n in figures.split(" | ")] for area, figures in rows}


def of_page(text: str) -> dict[str, str]:
    """By name alone: the page's lists do not name the vendor of the machine's only cards."""
    found: dict[str, set[str]] = {}
    for state, name in re.findall(r'<span class="word (\w+)">[^<]*</span> · <span class="mono">([\w.]+)</span>', text):
        found.setdefault(name, set()).add(state.upper())
    for state, table in re.findall(r'<table class="list (ok|blocked|not_applicable)">(.*?)</table>', text, re.DOTALL):
        for name in re.findall(r'<th scope="row"><span class="mono">([\w.]+)</span>', table):
            found.setdefault(name, set()).add(state.upper())
    assert all(len(states) == 1 for states in found.values()), found
    return {name: states.pop() for name, states in found.items()}


def of_terminal(text: str) -> dict[str, str]:
    """By name: what is amiss; `Not checked` names what is blocked."""
    flat = re.sub(r"\n {8,}(?=\S)", " ", text)
    found = re.findall(r"^ {4}\[(\S)\] ([\w., ]+?)(?: \([^)]*\))?: ", flat, re.MULTILINE)
    return {name: OF_MARK[mark] for mark, names in found for name in names.split(", ")}


def judged(name: str, *wishes: str) -> Report:
    with simulated(name, wishes) as machine:
        known = facts.gather(machine)
    return machine_report(checks.run_all(known), known, made=NOW)


# Two faults at once, of which one blocks what the other warns of.
TOGETHER = [(name, "card-lost+memory-held") for name in ("atlas-800t-a2", "bi-v150x8", "h200x8")]


@pytest.mark.parametrize(("name", "wishes"), [*((name, "") for name in MACHINES), *TOGETHER, *PAIRS])
def test_all_formats_say_one_status(name: str, wishes: str) -> None:
    """Read back from each format, of one machine and of a fleet, each check has one status, and everywhere the same."""
    report = judged(name, *filter(None, wishes.split("+")))
    told = {(f.name, f.device): f.status.name for f in report.findings}
    named = {key: status for key, status in told.items() if status not in ("OK", "NOT_APPLICABLE")}
    by_name = {check: status for (check, _), status in told.items()}
    wrong = {check: status for check, status in by_name.items() if Status[status].is_problem}
    markdown = formats.render("markdown", report)

    assert len(told) == len(report.findings)
    assert {form: read(formats.render(form, report)) for form, read in READ_WHOLE.items()} == dict.fromkeys(
        READ_WHOLE, told
    )
    assert of_markdown(markdown) == named
    assert counts_of_markdown(markdown) == _counts(report.findings)
    assert of_page(formats.render("html", report)) == by_name
    assert of_terminal(formats.render("table", replace(report, style=Style(width=10_000)))) == wrong
    _same_in_a_fleet(report, told, by_name, wrong)


def _counts(findings: list[Finding]) -> dict[str, list[int]]:
    areas = dict.fromkeys(f.name.partition(".")[0] for f in findings)
    return {title(area): [sum(f.name.partition(".")[0] == area and f.status is status for f in findings)
                          for status in COLUMNS] for area in areas}  # fmt: skip


def _same_in_a_fleet(report: Report, told: Said, by_name: dict[str, str], wrong: dict[str, str]) -> None:
    named = replace(report.hosts[0], name="node1")
    many = replace(report, hosts=(named,), style=Style(width=10_000))
    shown = {form: formats.render(form, many) for form in formats.FORMATS}
    said = json.loads(shown["json"])["hosts"]["node1"]
    problems = re.findall(r"^node1: \*\*(\S) ([\w.\\]+)\*\*", shown["markdown"], re.MULTILINE)

    assert of_json(json.dumps(said)) == told
    assert of_junit(shown["junit"]) == told
    assert of_sarif(shown["sarif"]) == told
    assert of_prometheus(shown["prometheus"]) == told
    assert {name.replace("\\", ""): OF_MARK[mark] for mark, name in problems} == wrong
    assert of_page(shown["html"]) == by_name
    assert {name: OF_MARK[mark] for mark, name in
            re.findall(r"^ {4}\[(\S)\] node1: ([\w.]+): ", shown["table"], re.MULTILINE)} == wrong  # fmt: skip
