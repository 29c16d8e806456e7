"""Render remarks as text, with the source line and a caret below it, and as JSON."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

from envcheck.core import errors
from envcheck.core.language import translate
from envcheck.core.language.width import wrap_text
from envcheck.core.lint.reading import Reading
from envcheck.core.lint.script_model import Remark
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.model import Status
from envcheck.core.secrets import redact_text
from envcheck.core.version import SCHEMA_VERSION
from envcheck.lint.context.shell_checkers import LARGE
from envcheck.lint.linter import LintResult, exit_code
from envcheck.lint.rule_pages import find_rule_page
from envcheck.lint.rule_table import RULES_BY_NAME
from envcheck.report import Style, safe
from envcheck.report.summary import add_parentheses, count_status

_WORDS = {Status.FAIL: _("FAIL"), Status.WARN: _("WARN"), Status.UNKNOWN: _("UNKNOWN"), Status.OK: _("INFO")}
_COLOURS = {Status.FAIL: "31", Status.WARN: "33", Status.UNKNOWN: "36", Status.OK: "2"}
MOST_USED_FILES = 8  # that are named
MOST_LINES = 8  # further places of an equal finding that are named


def as_text(result: LintResult, style: Style, strict: bool = False, name: str = "") -> str:
    """Return the result of a file; `name` is shown for it, by default the last part of its path."""
    shown = safe(name or ("-" if result.source.name == "-" else result.source.name.rpartition("/")[2]))
    lines = [line for same in _group_equal(result) for line in _render_remark(result, same, style, shown)]
    return "\n".join([*_render_readings(result, style, shown), *lines, *_render_summary(result, style, strict)]) + "\n"


MOST_READINGS = 4  # of a file that are named


def describe_reading(reading: Reading) -> Message:
    """Return what a part of a file was read as: its kind, or the program with its versions and parser."""
    if not reading.program:
        return _KINDS.get(reading.kind, verbatim(reading.kind))
    name = f"{reading.program} {reading.versions}".rstrip()
    named = _("{program} ({parser})", program=name, parser=reading.parser) if reading.parser else verbatim(name)
    if reading.kind == "bash":
        return _("script that starts {program}", program=named)
    return _("configuration of {program}", program=named)


_KINDS = {
    "bash": _("shell script"),
    "yaml": _("YAML of an unknown program"),
    "json": _("JSON of an unknown program"),
    "dockerfile": _("Dockerfile"),
}


def _render_readings(result: LintResult, style: Style, name: str) -> Iterator[str]:
    """The first lines: what the file was read as, and what was not checked; silence must not look like a pass."""
    if not result.readings:
        return
    read = [describe_reading(reading) for reading in result.readings]
    unchecked = list(dict.fromkeys(part for reading in result.readings for part in reading.unchecked))
    yield from _wrap_text(
        translate(_("{name} read as: {programs}", name=name, programs=join_some(read))), "", style.width
    )
    if unchecked:
        yield from _wrap_text(translate(_("not checked: {parts}", parts=join_some(unchecked))), "", style.width)
    yield ""


def join_some(parts: list[Message]) -> Message:
    """The first parts, and how many more there are."""
    shown = join("; ", parts[:MOST_READINGS])
    more = len(parts) - MOST_READINGS
    return _("{names} and {count} more", names=shown, count=more) if more > 0 else shown


def _group_equal(result: LintResult) -> list[list[Remark]]:
    """Remarks with equal texts, in the order of the first of each."""
    groups: dict[tuple[str, str, str], list[Remark]] = {}
    for remark in result.remarks:
        groups.setdefault((remark.rule, remark.seen, remark.remedy), []).append(remark)
    return list(groups.values())


def name_severity(severity: Status) -> str:
    """Return the word of a severity for programs; advice is INFO."""
    return "INFO" if severity is Status.OK else severity.name


def label_severity(severity: Status) -> Message:
    """Return the word of a severity for people."""
    return _WORDS[severity]


def _render_remark(result: LintResult, same: list[Remark], style: Style, name: str) -> Iterator[str]:
    remark = same[0]
    line, column = result.source.find_position(remark.start)
    word = translate(_WORDS[remark.severity])
    shown = f"\033[{_COLOURS[remark.severity]}m{word}\033[0m" if style.colour else word
    origin = " (shellcheck)" if remark.origin != "envcheck" else ""
    yield f"{shown} {name}:{line}:{column} {remark.rule}{origin}"
    end_line, end_column = result.source.find_position(remark.end)
    text = quote_source_line(result, remark)
    width = (end_column if end_line == line else len(text) + 1) - column
    yield from _mark_columns(text, column, max(1, width), style.width)
    yield from _wrap_text(translate(remark.seen), "  ", style.width)
    yield from _wrap_text(translate(remark.remedy), f"  {translate(_('next: '))}", style.width)
    if len(same) > 1:
        lines = ", ".join(str(result.source.find_position(each.start)[0]) for each in same[1 : MOST_LINES + 1])
        more = ", ..." if len(same) > MOST_LINES + 1 else ""
        told = _("{count} times: also in lines {lines}", count=len(same), lines=lines + more)
        yield from _wrap_text(translate(told), "  ", style.width)
    if style.is_verbose:
        yield from _describe_rule(remark.rule, style)
    yield ""


def _describe_rule(name: str, style: Style) -> Iterator[str]:
    """What the rule verifies, and its page."""
    rule = RULES_BY_NAME.get(name)
    if rule is not None:
        yield from _wrap_text(translate(rule.says), f"  {translate(_('rule: '))}", style.width)
    yield f"  {translate(_('see: '))}{find_rule_page(name)}"


def quote_source_line(result: LintResult, remark: Remark) -> str:
    """Return the line without secrets and cursor movements; tabs become blanks."""
    text = result.source.read_line(result.source.find_position(remark.start)[0])
    if remark.rule == "shell.secret":
        length = result.source.find_position(remark.end)[1] - result.source.find_position(remark.start)[1]
        column = result.source.find_position(remark.start)[1] - 1
        text = text[:column] + "*" * max(1, length) + text[column + max(1, length) :]
    redacted = redact_text(text)
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in redacted)


def _mark_columns(text: str, column: int, width: int, room: int) -> Iterator[str]:
    """The part of the line around the place, and markers below it."""
    room = max(20, room - 4)
    start = max(0, min(column - 1 - 12, len(text) - room)) if len(text) > room else 0
    piece = text[start : start + room]
    if start:
        piece = f"...{piece[3:]}"
    if start + room < len(text):
        piece = f"{piece[:-3]}..."
    at = column - 1 - start
    yield f"    {piece.rstrip()}"
    yield f"    {' ' * at}^{'~' * max(0, min(width - 1, room - at - 1))}"


def _wrap_text(text: str, lead: str, width: int) -> list[str]:
    plain = safe(redact_text(text))
    return wrap_text(plain, max(30, width), lead, "  ") if plain else []


def _render_summary(result: LintResult, style: Style, strict: bool) -> Iterator[str]:
    counts = Counter(remark.severity for remark in result.remarks)
    kinds = (Status.FAIL, Status.WARN, Status.UNKNOWN)
    parts = [translate(count_status(severity, counts[severity])) for severity in kinds if counts[severity]]
    if notes := counts[Status.OK]:
        parts.append(translate(ngettext("{count} note", "{count} notes", notes)))
    if not parts or not result.known:
        parts.append(translate(_describe_nothing(result)))
    said = translate(", ").join(parts)
    waived = (
        add_parentheses(translate(_("{waived_count} waived in the file", waived_count=len(result.waived))))
        if result.waived
        else ""
    )
    fixes = sum(remark.fix is not None for remark in result.remarks)
    yield from wrap_text(f"{said}{waived}", max(30, style.width))
    if result.job:
        method = result.job.method
        named = " ".join(filter(None, (method.method, method.variant, method.role)))
        yield from wrap_text(
            translate(_("generated from {named} of recipe {name}", name=result.job.recipe.name, named=named)),
            max(30, style.width),
        )
    if fixes:
        yield translate(_("--write-fixed fixes {fixes} of them in a copy", fixes=fixes))
    if result.jobs_left_out:
        told = translate(
            _("{count} training commands were not checked: the file has too many", count=result.jobs_left_out)
        )
        yield from wrap_text(told, max(30, style.width))
    if result.shellcheck and result.too_long:
        yield translate(_("shellcheck skipped: the script is longer than {size} KiB", size=LARGE // 1024))
    if result.used_files:
        files = " ".join(safe(shlex.quote(name)) for name in result.used_files[:MOST_USED_FILES])
        words = ngettext(
            "it uses a file that was not checked:",
            "it uses {count} files that were not checked:",
            len(result.used_files),
        )
        yield translate(words)
        yield f"  $ envcheck lint {files}"  # in one line, so that it can be copied


def _describe_nothing(result: LintResult) -> Message:
    """What was not checked must not look like a pass."""
    if not result.read:
        return _("nothing checked: no shell, YAML, JSON or Dockerfile content found")
    return (
        _("No issues found.") if result.known else _("not a known training configuration: only the syntax was checked")
    )


def as_json(result: LintResult, strict: bool) -> str:
    return json.dumps({"schema": SCHEMA_VERSION, **make_document(result, strict)}, indent=1, ensure_ascii=False)


def make_document(result: LintResult, strict: bool) -> dict[str, Any]:
    """Return the result of a file for programs."""
    return {
        "file": result.source.name,
        "device": result.device or None,
        "read": result.read,
        "shellcheck": result.shellcheck and not result.too_long,
        "readings": [_make_reading_object(reading) for reading in result.readings],
        "used_files": list(result.used_files),
        **_make_outcome(result, exit_code(result, strict)),
        "job": result.job.as_json() if result.job else None,
        "findings": [_make_remark_object(result, remark) for remark in result.remarks],
        "waived": [_make_remark_object(result, remark) for remark in result.waived],
    }


def _make_reading_object(reading: Reading) -> dict[str, Any]:
    return {
        "kind": reading.kind,
        "program": reading.program or None,
        "versions": reading.versions or None,
        "parser": reading.parser or None,
        "not_checked": list(reading.unchecked),
    }


def _make_outcome(result: LintResult, code: int) -> dict[str, Any]:
    """The outcome of the command: the worst remark, or the reason why nothing was checked, is the error."""
    worst = max(result.remarks, key=lambda remark: remark.severity, default=None)
    if worst is None or not result.known:
        return errors.outcome_fields(code, _describe_nothing(result))
    return errors.outcome_fields(
        code, f"{worst.rule}: {safe(redact_text(worst.seen))}", safe(redact_text(worst.remedy))
    )


def _make_remark_object(result: LintResult, remark: Remark) -> dict[str, Any]:
    line, column = result.source.find_position(remark.start)
    end_line, end_column = result.source.find_position(remark.end)
    return {
        "rule": remark.rule,
        "severity": name_severity(remark.severity),
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "seen": redact_text(remark.seen),
        "evidence": quote_source_line(result, remark).strip(),
        "remedy": remark.remedy,
        "fix": remark.fix is not None,
        "origin": remark.origin,
        "page": find_rule_page(remark.rule),
    }
