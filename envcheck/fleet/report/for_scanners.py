"""The fleet for CI servers and scanners: JUnit with a suite an area of each host, SARIF with a place a host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any
from xml.etree import ElementTree  # it writes here; nothing is read

from envcheck.core.facts import Facts
from envcheck.core.facts import Host as Named
from envcheck.core.model import Finding
from envcheck.core.version import __version__
from envcheck.fleet.evaluate import Fleet, alike
from envcheck.fleet.report import summary as told
from envcheck.fleet.report.options import FleetReportOptions
from envcheck.report import junit, sarif
from envcheck.report.summary import Report, exit_code, safe, summary

AMONG = "fleet"


def render_junit(fleet: Fleet, asked: FleetReportOptions) -> str:
    """Suites are named HOST.AREA; what is told among hosts stands in the suite `fleet`."""
    root = ElementTree.Element(
        "testsuites", {"name": safe(told.head(fleet)), **junit._sums(fleet.findings, asked.strict)}
    )
    for host, found in _each(fleet):
        report = Report(found, Facts(host=Named(hostname=host)), asked.strict, made=asked.made)
        for area, some in groupby(found, key=lambda f: f.name.partition(".")[0]):
            junit._suite(root, area, list(some), report)
            _of_host(root[-1], host, area)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _of_host(suite: ElementTree.Element, host: str, area: str) -> None:
    name = AMONG if host == AMONG else f"{safe(host)}.{safe(area)}"
    suite.set("name", name)
    for case in suite.iter("testcase"):
        case.set("classname", f"envcheck.{name}")


def render_sarif(fleet: Fleet, asked: FleetReportOptions) -> str:
    from envcheck.checks import CHECKS

    names = list(dict.fromkeys(safe(f.name) for f in fleet.findings))
    known = {check.name: check for check in CHECKS}
    rules = [sarif._rule(name, known.get(name)) for name in names]
    place = {name: n for n, name in enumerate(names)}
    step = told.step(fleet, alike(fleet.hosts)).replace("\n", " ")
    run = {
        "tool": {"driver": {"name": "envcheck", "version": __version__, "rules": rules}},
        "automationDetails": {"id": "envcheck doctor --hosts/", "description": {"text": safe(told.head(fleet))}},
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": exit_code(fleet.findings, asked.strict),
                "endTimeUtc": asked.made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [
            {**sarif._result(f, [safe(f.name)], safe(host) or "host"), "ruleIndex": place[safe(f.name)]}
            for host, found in _each(fleet)
            for f in found
        ],
        "properties": {"verdict": summary(fleet.findings), "nextStep": step},
    }
    document: dict[str, Any] = {"$schema": sarif.SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _each(fleet: Fleet) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    if fleet.odd:
        yield AMONG, fleet.odd
    for host in fleet.hosts:
        yield host.name, host.findings
