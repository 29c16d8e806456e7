"""What was found as SARIF 2.1.0, the form in which code hosts and editors take findings."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from envcheck.core.lint.model import Remark
from envcheck.core.model import Status
from envcheck.core.secrets import redact
from envcheck.lint.lint import Result
from envcheck.lint.show import source_line
from envcheck.lint.table import BY_NAME
from envcheck.report.sarif_log import write_log

_LEVELS = {Status.FAIL: "error", Status.WARN: "warning", Status.UNKNOWN: "note"}


def as_sarif(result: Result) -> str:
    remarks = [_result(result, remark, waived=False) for remark in result.remarks]
    remarks += [_result(result, remark, waived=True) for remark in result.waived]
    return write_log(remarks, _rule)


def _rule(name: str) -> dict[str, Any]:
    rule = BY_NAME.get(name)
    if rule is None:  # shellcheck's
        return {"id": name, "helpUri": f"https://www.shellcheck.net/wiki/{name.rpartition('.')[2]}"}
    return {
        "id": name,
        "shortDescription": {"text": rule.says},
        "help": {"text": f"{rule.says} Source: {rule.source}."},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(result: Result, remark: Remark, waived: bool) -> dict[str, Any]:
    line, column = result.source.place(remark.start)
    end_line, end_column = result.source.place(remark.end)
    name = "stdin" if result.source.name == "-" else result.source.name
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    region |= {"snippet": {"text": source_line(result, remark)}}  # type: ignore[dict-item]
    found: dict[str, Any] = {
        "ruleId": remark.rule,
        "level": _LEVELS[remark.severity],
        "kind": "fail" if remark.severity is not Status.UNKNOWN else "open",
        "message": {"text": f"{redact(remark.seen)}. Next: {redact(remark.remedy)}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(name)}, "region": region}}],
    }
    if found["kind"] != "fail":
        found["level"] = "none"  # the standard: a level belongs to what fails
    if waived:
        found["suppressions"] = [{"kind": "inSource"}]
    if remark.fix is not None:
        found["fixes"] = [_fix(result, remark, quote(name))]
    return found


def _fix(result: Result, remark: Remark, uri: str) -> dict[str, Any]:
    replacements = []
    for start, end, text in remark.fix.edits if remark.fix else ():
        (line, column), (end_line, end_column) = result.source.place(start), result.source.place(end)
        region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
        replacements.append({"deletedRegion": region, "insertedContent": {"text": text}})
    change = {"artifactLocation": {"uri": uri}, "replacements": replacements}
    return {"description": {"text": remark.remedy}, "artifactChanges": [change]}
