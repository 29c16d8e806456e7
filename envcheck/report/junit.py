"""For a CI server: a test suite an area, a test case a check of one vendor's devices or of the machine.

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
from envcheck.report.summary import Report, head, next_line, safe, summary

# Status -> the element that says so, none: the case passes.
ELEMENTS = {
    Status.NOT_APPLICABLE: "skipped",
    Status.BLOCKED: "skipped",
    Status.UNKNOWN: "error",
    Status.FAIL: "failure",
}
# What a skipped case says before what was seen.


def render(report: Report) -> str:
    root = ElementTree.Element("testsuites", {"name": head(report.facts), **_sums(report.findings, report.strict)})
    for area, findings in groupby(report.findings, key=lambda f: f.name.partition(".")[0]):
        _suite(root, area, list(findings), report)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, area: str, findings: list[Finding], report: Report) -> None:
    host = report.facts.host
    suite = ElementTree.SubElement(root, "testsuite", {"name": safe(area), **_sums(findings, report.strict)})
    suite.set("skipped", str(sum(_element(f, report.strict) == "skipped" for f in findings)))
    suite.set("hostname", safe(host.hostname or "") if host else "")
    if report.made:
        suite.set("timestamp", report.made.strftime("%Y-%m-%dT%H:%M:%S"))
    told = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(told, "property", name="verdict", value=summary(report.findings))
    ElementTree.SubElement(told, "property", name="next_step", value=next_line(report.findings))
    for finding in findings:
        _case(suite, finding, report.strict)


def _case(suite: ElementTree.Element, finding: Finding, strict: bool) -> None:
    name = safe(f"{finding.name} ({finding.device})" if finding.device else finding.name)
    area = safe(finding.name).partition(".")[0]
    case = ElementTree.SubElement(suite, "testcase", name=name, classname=f"envcheck.{area}", time="0")
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
