"""What was found as SARIF 2.1.0, the form in which code hosts and editors take findings."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from envcheck.core.lint.model import Remark
from envcheck.core.model import Status
from envcheck.core.secrets import redact
from envcheck.core.version import __version__
from envcheck.lint.lint import Result
from envcheck.lint.show import source_line
from envcheck.lint.table import BY_NAME

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Status.FAIL: "error", Status.WARN: "warning", Status.UNKNOWN: "note"}


def as_sarif(result: Result) -> str:
    names = list(dict.fromkeys(remark.rule for remark in (*result.remarks, *result.waived)))
    driver = {
        "name": "envcheck",
        "version": __version__,
        "rules": [_rule(name) for name in names],
    }
    remarks = [_result(result, remark, names, waived=False) for remark in result.remarks]
    remarks += [_result(result, remark, names, waived=True) for remark in result.waived]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": remarks}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


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


def _result(result: Result, remark: Remark, names: list[str], waived: bool) -> dict[str, Any]:
    line, column = result.source.place(remark.start)
    end_line, end_column = result.source.place(remark.end)
    name = "stdin" if result.source.name == "-" else result.source.name
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    region |= {"snippet": {"text": source_line(result, remark)}}  # type: ignore[dict-item]
    found: dict[str, Any] = {
        "ruleId": remark.rule,
        "ruleIndex": names.index(remark.rule),
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
