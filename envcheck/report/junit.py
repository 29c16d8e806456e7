"""JUnit XML for CI servers: one test suite per area of a host, one test case per check and vendor (or machine).

A failed check is a failure, an unknown result an error.  What does not apply, is blocked or is waived is skipped, with
the reason in type and message.  JUnit has no warnings: a warning passes and is mentioned in the output, or, with
--strict, fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree import ElementTree  # used for writing only

from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.core.model import Finding, Status
from envcheck.report.contents import DoctorReport, HostReport
from envcheck.report.summary import AMONG_HOSTS, format_headline, join_lines, next_step, safe, summarise_findings

# Status -> child element; a case without one passes
ELEMENTS = {
    Status.NOT_APPLICABLE: "skipped",
    Status.BLOCKED: "skipped",
    Status.UNKNOWN: "error",
    Status.FAIL: "failure",
}


def render(report: DoctorReport) -> str:
    """Return the report as JUnit XML."""
    root = ElementTree.Element(
        "testsuites", {"name": format_headline(report), **_count_results(report.findings, report.strict)}
    )
    shared = (HostReport(report.shared, name=AMONG_HOSTS),) if report.shared else ()
    for host in (*shared, *report.hosts):
        for area, findings in groupby(host.findings, key=lambda f: f.name.partition(".")[0]):
            _add_suite(root, host, safe(area), list(findings), report)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add_suite(
    root: ElementTree.Element, host: HostReport, area: str, findings: list[Finding], report: DoctorReport
) -> None:
    """Add an area of the local machine, or HOST.AREA; the suite `fleet` has the comparison of the hosts."""
    place = host.facts.host
    name = f"{safe(host.name)}.{area}" if host.name and host.name != AMONG_HOSTS else host.name or area
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_count_results(findings, report.strict)})
    suite.set("skipped", str(sum(_choose_element(f, report.strict) == "skipped" for f in findings)))
    suite.set("hostname", safe(host.name or (place.hostname if place else None) or ""))
    if report.made:
        suite.set("timestamp", report.made.strftime("%Y-%m-%dT%H:%M:%S"))
    properties_element = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties_element, "property", name="verdict", value=summarise_findings(host.findings))
    ElementTree.SubElement(properties_element, "property", name="next_step", value=join_lines(next_step(host.findings)))
    for finding in findings:
        _add_case(suite, name, finding, report.strict)


def _add_case(suite: ElementTree.Element, classname: str, finding: Finding, strict: bool) -> None:
    name = safe(f"{finding.name} ({finding.device})" if finding.device else finding.name)
    case = ElementTree.SubElement(suite, "testcase", name=name, classname=f"envcheck.{classname}", time="0")
    element = _choose_element(finding, strict)
    if element:
        said = ElementTree.SubElement(case, element, type=finding.status.name, message=_format_message(finding))
        said.text = "\n".join(_list_details(finding)) or None
    else:
        words = [f"{finding.status.name}: {safe(finding.seen)}", *_list_details(finding)]
        ElementTree.SubElement(case, "system-out").text = "\n".join(words)


def _format_message(finding: Finding) -> str:
    seen = safe(finding.seen)
    if finding.status is Status.NOT_APPLICABLE:
        seen = translate(_("not applicable: {seen}", seen=seen))
    return translate(_("{seen} (waived {reason})", seen=seen, reason=safe(finding.waived))) if finding.waived else seen


def _choose_element(finding: Finding, strict: bool) -> str:
    if finding.waived:
        return "skipped"
    return "failure" if strict and finding.status is Status.WARN else ELEMENTS.get(finding.status, "")


def _count_results(findings: Sequence[Finding], strict: bool) -> dict[str, str]:
    elements = [_choose_element(f, strict) for f in findings]
    return {
        "tests": str(len(elements)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
    }


def _list_details(finding: Finding) -> Iterator[str]:
    yield from _list_reasons(finding)
    for part in finding.details:
        yield safe(part.seen)
        yield from _list_reasons(part)


def _list_reasons(part: Finding) -> Iterator[str]:
    yield from (f"| {safe(line)}" for line in part.evidence)
    if part.remedy and part.status.is_problem:
        yield safe(f"{translate(part.remedy.label)}{part.remedy.words}")
        yield from (f"  {safe(command)}" for command in part.remedy.commands)
