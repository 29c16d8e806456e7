"""Remarks as SARIF 2.1.0, the format that code hosts and editors read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from envcheck.core.lint.script_model import Remark
from envcheck.core.model import Status
from envcheck.core.secrets import redact_text
from envcheck.lint.linter import LintResult
from envcheck.lint.render_remarks import describe_reading, quote_source_line
from envcheck.lint.rule_pages import find_rule_page
from envcheck.lint.rule_table import RULES_BY_NAME
from envcheck.report.sarif_log import write_log

_LEVELS = {Status.FAIL: "error", Status.WARN: "warning", Status.UNKNOWN: "note", Status.OK: "note"}


def write_sarif(results: Sequence[LintResult]) -> str:
    """Return one log with the findings of all files; a notification for each says what it was read as."""
    remarks = [_make_result_object(each, remark, waived=False) for each in results for remark in each.remarks]
    remarks += [_make_result_object(each, remark, waived=True) for each in results for remark in each.waived]
    notes = [_make_notification(each) for each in results if each.readings]
    invocation = {"executionSuccessful": True, "toolExecutionNotifications": notes}
    return write_log(remarks, _make_rule_object, invocations=[invocation])


def _make_notification(result: LintResult) -> dict[str, Any]:
    """What a file was read as, and what was not checked."""
    read = "; ".join(describe_reading(reading) for reading in result.readings)
    unchecked = list(dict.fromkeys(str(part) for reading in result.readings for part in reading.unchecked))
    text = f"read as: {read}" + (f". Not checked: {'; '.join(unchecked)}" if unchecked else "")
    place = {"physicalLocation": {"artifactLocation": {"uri": quote(_name_source(result))}}}
    properties = {"readAs": [str(describe_reading(reading)) for reading in result.readings], "notChecked": unchecked}
    return {"level": "note", "message": {"text": text}, "locations": [place], "properties": properties}


def _name_source(result: LintResult) -> str:
    return "stdin" if result.source.name == "-" else result.source.name


def _make_rule_object(name: str) -> dict[str, Any]:
    page = find_rule_page(name)
    link = {"helpUri": page} if "://" in page else {}  # the standard: an absolute URI
    rule = RULES_BY_NAME.get(name)
    if rule is None:  # shellcheck's
        return {"id": name, **link}
    return {
        "id": name,
        "shortDescription": {"text": rule.says},
        **link,
        "help": {
            "text": f"{rule.says} Source: {rule.source}. See {page}.",
            "markdown": f"{rule.says}\n\nSource: {rule.source}. [Documentation]({page})",
        },
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _make_result_object(result: LintResult, remark: Remark, waived: bool) -> dict[str, Any]:
    line, column = result.source.find_position(remark.start)
    end_line, end_column = result.source.find_position(remark.end)
    name = _name_source(result)
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    region |= {"snippet": {"text": quote_source_line(result, remark)}}  # type: ignore[dict-item]
    found: dict[str, Any] = {
        "ruleId": remark.rule,
        "level": _LEVELS[remark.severity],
        "kind": {Status.UNKNOWN: "open", Status.OK: "informational"}.get(remark.severity, "fail"),
        "message": {"text": f"{redact_text(remark.seen)}. Next: {redact_text(remark.remedy)}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(name)}, "region": region}}],
    }
    if found["kind"] != "fail":
        found["level"] = "none"  # the standard: a level belongs to what fails
    if waived:
        found["suppressions"] = [{"kind": "inSource"}]
    if remark.fix is not None:
        found["fixes"] = [_make_fix_object(result, remark, quote(name))]
    return found


def _make_fix_object(result: LintResult, remark: Remark, uri: str) -> dict[str, Any]:
    replacements = []
    for start, end, text in remark.fix.edits if remark.fix else ():
        (line, column), (end_line, end_column) = result.source.find_position(start), result.source.find_position(end)
        region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
        replacements.append({"deletedRegion": region, "insertedContent": {"text": text}})
    change = {"artifactLocation": {"uri": uri}, "replacements": replacements}
    return {"description": {"text": remark.remedy}, "artifactChanges": [change]}
