"""Remarks as SARIF 2.1.0, the format that code hosts and editors read."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from envcheck.core.lint.script_model import Remark
from envcheck.core.model import Status
from envcheck.core.secrets import redact_text
from envcheck.lint.linter import LintResult
from envcheck.lint.render_remarks import quote_source_line
from envcheck.lint.rule_table import RULES_BY_NAME
from envcheck.report.sarif_log import write_log

_LEVELS = {Status.FAIL: "error", Status.WARN: "warning", Status.UNKNOWN: "note", Status.OK: "note"}


def write_sarif(result: LintResult) -> str:
    remarks = [_make_result_object(result, remark, waived=False) for remark in result.remarks]
    remarks += [_make_result_object(result, remark, waived=True) for remark in result.waived]
    return write_log(remarks, _make_rule_object)


def _make_rule_object(name: str) -> dict[str, Any]:
    rule = RULES_BY_NAME.get(name)
    if rule is None:  # shellcheck's
        return {"id": name, "helpUri": f"https://www.shellcheck.net/wiki/{name.rpartition('.')[2]}"}
    return {
        "id": name,
        "shortDescription": {"text": rule.says},
        "help": {"text": f"{rule.says} Source: {rule.source}."},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _make_result_object(result: LintResult, remark: Remark, waived: bool) -> dict[str, Any]:
    line, column = result.source.find_position(remark.start)
    end_line, end_column = result.source.find_position(remark.end)
    name = "stdin" if result.source.name == "-" else result.source.name
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
