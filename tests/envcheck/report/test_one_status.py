"""A check has one status for each vendor's devices, or for the machine, equal in every format."""

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
from envcheck.report import DoctorReport, Style, formats
from envcheck.report.markdown import COLUMNS
from envcheck.report.style import MARKS
from envcheck.report.summary import BLOCKED_NAMES_LIMIT, get_area_title
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import MACHINES, simulate_machine
from tests.envcheck.checks.test_doctor_machines import PAIRS
from tests.envcheck.report.report_helpers import NOW, make_machine_report
from tests.tiers import thin_out

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is in the extra `test`")

Said = dict[tuple[str, str], str]  # check and vendor -> status
OF_MARK = {mark: status.name for status, mark in MARKS.items()}
PASSED = ("OK", "WARN")  # JUnit cases without a child element: the status is in their output


def read_json_statuses(text: str) -> Said:
    return _require_unique(((f["name"], f["device"]), f["status"]) for f in json.loads(text)["findings"])


def read_junit_statuses(text: str) -> Said:
    return _require_unique(_read_case(case) for case in ElementTree.fromstring(text).iter("testcase"))


def _read_case(case):  # type: ignore[no-untyped-def]
    name, _, device = case.get("name").rstrip(")").partition(" (")
    (said,) = case
    return (name, device), said.get("type") or said.text.partition(":")[0]


def read_sarif_statuses(text: str) -> Said:
    kinds = {("pass", "none"): "OK", ("notApplicable", "none"): "NOT_APPLICABLE", ("open", "none"): "BLOCKED",
             ("review", "none"): "UNKNOWN", ("fail", "warning"): "WARN", ("fail", "error"): "FAIL"}  # fmt: skip
    return _require_unique(
        ((r["ruleId"], _read_device(r)), kinds[r["kind"], r["level"]]) for r in json.loads(text)["runs"][0]["results"]
    )


def _read_device(result):  # type: ignore[no-untyped-def]
    place = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
    return place.partition("/")[2]


def read_prometheus_statuses(text: str) -> Said:
    samples = [s for family in parser.text_string_to_metric_families(text) for s in family.samples]
    told = [s.labels for s in samples if s.name == "envcheck_check_status"]
    return _require_unique(((labels["check"], labels["device"]), labels["status"].upper()) for labels in told)


def _require_unique(pairs) -> Said:  # type: ignore[no-untyped-def]
    told = list(pairs)
    assert [key for key, n in Counter(key for key, _ in told).items() if n > 1] == []
    return dict(told)


READ_WHOLE = {
    "json": read_json_statuses,
    "junit": read_junit_statuses,
    "sarif": read_sarif_statuses,
    "prometheus": read_prometheus_statuses,
}
_HEADING = re.compile(r"^(?:\* )?\*\*(\S) ([\w.\\]+)\*\*(?: \(([^)]+)\))?: ", re.MULTILINE)
_VENDOR = {known.title: name for name, known in VENDORS.items()}


def read_markdown_statuses(text: str) -> Said:
    """What failed, warns, is unknown, or is blocked with few others is named; the rest is counted."""
    found = [(m[2].replace("\\", ""), _VENDOR.get(m[3] or "", ""), OF_MARK[m[1]]) for m in _HEADING.finditer(text)]
    told = {(name, device): status for name, device, status in found}
    assert len(told) == len({(name, device, status) for name, device, status in found})
    return told


def read_markdown_counts(text: str) -> dict[str, list[int]]:
    rows = re.findall(r"^\| \S \| ([^|]+) \| ([\d |]+) \|$", text, re.MULTILINE)
    return {area: [int(n) for n in figures.split(" | ")] for area, figures in rows}


def read_page_statuses(text: str) -> dict[str, str]:
    """By name alone: the page's lists do not name the vendor of the machine's only cards."""
    found: dict[str, set[str]] = {}
    for state, name in re.findall(r'<span class="word (\w+)">[^<]*</span> · <span class="mono">([\w.]+)</span>', text):
        found.setdefault(name, set()).add(state.upper())
    for state, table in re.findall(r'<table class="list (ok|blocked|not_applicable)">(.*?)</table>', text, re.DOTALL):
        for name in re.findall(r'<th scope="row"><span class="mono">([\w.]+)</span>', table):
            found.setdefault(name, set()).add(state.upper())
    assert all(len(states) == 1 for states in found.values()), found
    return {name: states.pop() for name, states in found.items()}


def read_terminal_statuses(text: str) -> dict[str, str]:
    """By name: what is amiss; `Not checked` names what is blocked."""
    flat = re.sub(r"\n {8,}(?=\S)", " ", text)
    found = re.findall(r"^ {4}\[(\S)\] ([\w., ]+?)(?: \([^)]*\))?: ", flat, re.MULTILINE)
    return {name: OF_MARK[mark] for mark, names in found for name in names.split(", ")}


def _area_of(finding: Finding) -> str:
    return finding.name.partition(".")[0]


def _list_collapsed_areas(report: DoctorReport) -> set[str]:
    """Areas with so many blocked checks that Markdown shows their number and cause."""
    blocked = Counter(_area_of(f) for f in report.findings if f.status is Status.BLOCKED)
    return {area for area, count in blocked.items() if count > BLOCKED_NAMES_LIMIT}


def run_doctor(name: str, *wishes: str) -> DoctorReport:
    with simulate_machine(name, wishes) as machine:
        known = facts.gather_facts(machine)
    return make_machine_report(checks.run_checks(known), known, made=NOW)


# Two faults at once, of which one blocks what the other warns of.
TOGETHER = [(name, "card-lost+memory-held") for name in ("atlas-800t-a2", "bi-v150x8", "h200x8")]


@pytest.mark.parametrize(("name", "wishes"), [*((name, "") for name in MACHINES), *TOGETHER, *thin_out(40, PAIRS)])
def test_all_formats_say_one_status(name: str, wishes: str) -> None:
    """Read back from each format, of one machine and of a fleet, each check has one status, and everywhere the same."""
    report = run_doctor(name, *filter(None, wishes.split("+")))
    told = {(f.name, f.device): f.status.name for f in report.findings}
    named = {
        (f.name, f.device): f.status.name
        for f in report.findings
        if f.status.is_problem or (f.status is Status.BLOCKED and _area_of(f) not in _list_collapsed_areas(report))
    }
    by_name = {check: status for (check, _), status in told.items()}
    wrong = {check: status for check, status in by_name.items() if Status[status].is_problem}
    markdown = formats.render("markdown", report)

    assert len(told) == len(report.findings)
    assert {form: read(formats.render(form, report)) for form, read in READ_WHOLE.items()} == dict.fromkeys(
        READ_WHOLE, told
    )
    assert read_markdown_statuses(markdown) == named
    assert read_markdown_counts(markdown) == _count_statuses(report.findings)
    assert read_page_statuses(formats.render("html", report)) == by_name
    assert read_terminal_statuses(formats.render("table", replace(report, style=Style(width=10_000)))) == wrong
    _check_same_in_a_fleet(report, told, by_name, wrong)


def _count_statuses(findings: list[Finding]) -> dict[str, list[int]]:
    areas = dict.fromkeys(f.name.partition(".")[0] for f in findings)
    return {get_area_title(area): [sum(f.name.partition(".")[0] == area and f.status is status for f in findings)
                          for status in COLUMNS] for area in areas}  # fmt: skip


def _check_same_in_a_fleet(report: DoctorReport, told: Said, by_name: dict[str, str], wrong: dict[str, str]) -> None:
    named = replace(report.hosts[0], name="node1")
    many = replace(report, hosts=(named,), style=Style(width=10_000))
    shown = {form: formats.render(form, many) for form in formats.FORMATS}
    said = json.loads(shown["json"])["hosts"]["node1"]
    problems = re.findall(r"^node1: \*\*(\S) ([\w.\\]+)\*\*", shown["markdown"], re.MULTILINE)

    assert read_json_statuses(json.dumps(said)) == told
    assert read_junit_statuses(shown["junit"]) == told
    assert read_sarif_statuses(shown["sarif"]) == told
    assert read_prometheus_statuses(shown["prometheus"]) == told
    assert {name.replace("\\", ""): OF_MARK[mark] for mark, name in problems} == wrong
    assert read_page_statuses(shown["html"]) == by_name
    assert {name: OF_MARK[mark] for mark, name in
            re.findall(r"^ {4}\[(\S)\] node1: ([\w.]+): ", shown["table"], re.MULTILINE)} == wrong  # fmt: skip
