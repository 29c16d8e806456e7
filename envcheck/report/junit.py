"""For a CI server: a test suite an area of a host, a test case a check of one vendor's devices or of the machine.

A failure is a failure; what could not be determined is an error; what does not apply, is blocked or is waived is
skipped, and its type and message say which.  JUnit has no warning: one passes and says so in its output, or, with
--strict, fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree import ElementTree  # it writes here; nothing is read

from envcheck.core.language import say
from envcheck.core.model import Finding, Status
from envcheck.report.contents import HostReport, Report
from envcheck.report.summary import AMONG_HOSTS, head, next_step, one_line, safe, summary

# Status -> the element that says so, none: the case passes.
ELEMENTS = {
    Status.NOT_APPLICABLE: "skipped",
    Status.BLOCKED: "skipped",
    Status.UNKNOWN: "error",
    Status.FAIL: "failure",
}


def render(report: Report) -> str:
    root = ElementTree.Element("testsuites", {"name": head(report), **_sums(report.findings, report.strict)})
    shared = (HostReport(report.shared, name=AMONG_HOSTS),) if report.shared else ()
    for host in (*shared, *report.hosts):
        for area, findings in groupby(host.findings, key=lambda f: f.name.partition(".")[0]):
            _suite(root, host, safe(area), list(findings), report)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, host: HostReport, area: str, findings: list[Finding], report: Report) -> None:
    """An area of this machine, or HOST.AREA; what a comparison of the hosts found is in the suite `fleet`."""
    place = host.facts.host
    name = f"{safe(host.name)}.{area}" if host.name and host.name != AMONG_HOSTS else host.name or area
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_sums(findings, report.strict)})
    suite.set("skipped", str(sum(_element(f, report.strict) == "skipped" for f in findings)))
    suite.set("hostname", safe(host.name or (place.hostname if place else None) or ""))
    if report.made:
        suite.set("timestamp", report.made.strftime("%Y-%m-%dT%H:%M:%S"))
    told = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(told, "property", name="verdict", value=summary(host.findings))
    ElementTree.SubElement(told, "property", name="next_step", value=one_line(next_step(host.findings)))
    for finding in findings:
        _case(suite, name, finding, report.strict)


def _case(suite: ElementTree.Element, classname: str, finding: Finding, strict: bool) -> None:
    name = safe(f"{finding.name} ({finding.device})" if finding.device else finding.name)
    case = ElementTree.SubElement(suite, "testcase", name=name, classname=f"envcheck.{classname}", time="0")
    element = _element(finding, strict)
    if element:
        said = ElementTree.SubElement(case, element, type=finding.status.name, message=_message(finding))
        said.text = "\n".join(_details(finding)) or None
    else:
        words = [f"{finding.status.name}: {safe(finding.seen)}", *_details(finding)]
        ElementTree.SubElement(case, "system-out").text = "\n".join(words)


def _message(finding: Finding) -> str:
    before = f"{say('not applicable')}{say(': ')}" if finding.status is Status.NOT_APPLICABLE else ""
    return f"{before}{safe(finding.seen)}{say('; waived ') + safe(finding.waived) if finding.waived else ''}"


def _element(finding: Finding, strict: bool) -> str:
    if finding.waived:
        return "skipped"
    return "failure" if strict and finding.status is Status.WARN else ELEMENTS.get(finding.status, "")


def _sums(findings: Sequence[Finding], strict: bool) -> dict[str, str]:
    elements = [_element(f, strict) for f in findings]
    return {
        "tests": str(len(elements)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
    }


def _details(finding: Finding) -> Iterator[str]:
    yield from _reasons(finding)
    for part in finding.details:
        yield safe(part.seen)
        yield from _reasons(part)


def _reasons(part: Finding) -> Iterator[str]:
    yield from (f"| {safe(line)}" for line in part.evidence)
    if part.remedy and part.status.is_problem:
        yield safe(part.remedy.words)
        yield from (f"  {safe(command)}" for command in part.remedy.commands)
