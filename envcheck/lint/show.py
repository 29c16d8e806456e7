"""What was found, as text: line by line, with the source and a caret under it; and as JSON."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

from envcheck.core import errors
from envcheck.core.language import say
from envcheck.core.language.width import wrap
from envcheck.core.lint.model import Remark
from envcheck.core.model import Status
from envcheck.core.secrets import redact
from envcheck.core.version import SCHEMA_VERSION
from envcheck.lint.lint import Result, exit_code
from envcheck.report import Style, safe

_WORDS = {Status.FAIL: "FAIL", Status.WARN: "WARN", Status.UNKNOWN: "CANNOT TELL"}
_COLOURS = {Status.FAIL: "31", Status.WARN: "33", Status.UNKNOWN: "36"}


def as_text(result: Result, style: Style, strict: bool = False) -> str:
    lines = [line for remark in result.remarks for line in _remark(result, remark, style)]
    return "\n".join([*lines, *_end(result, style, strict)]) + "\n"


def _remark(result: Result, remark: Remark, style: Style) -> Iterator[str]:
    line, column = result.source.place(remark.start)
    word = say(_WORDS[remark.severity])
    shown = f"\033[{_COLOURS[remark.severity]}m{word}\033[0m" if style.colour else word
    name = "-" if result.source.name == "-" else result.source.name.rpartition("/")[2]
    yield f"{shown} {safe(name)}:{line}:{column} {remark.rule}{' (shellcheck)' if remark.origin != 'envcheck' else ''}"
    end_line, end_column = result.source.place(remark.end)
    text = source_line(result, remark)
    width = (end_column if end_line == line else len(text) + 1) - column
    yield from _quoted(text, column, max(1, width), style.width)
    yield from _wrapped(say(remark.seen), "  ", style.width)
    yield from _wrapped(say(remark.remedy), f"  {say('next: ')}", style.width)
    yield ""


def source_line(result: Result, remark: Remark) -> str:
    """The line, without secrets and without what would move the cursor; tabs are blanks."""
    text = result.source.line(result.source.place(remark.start)[0])
    if remark.rule == "shell.secret":
        length = result.source.place(remark.end)[1] - result.source.place(remark.start)[1]
        column = result.source.place(remark.start)[1] - 1
        text = text[:column] + "*" * max(1, length) + text[column + max(1, length) :]
    redacted = redact(text)
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in redacted)


def _quoted(text: str, column: int, width: int, room: int) -> Iterator[str]:
    """The stretch of the line around the place, and marks below it."""
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


def _wrapped(text: str, lead: str, width: int) -> list[str]:
    plain = safe(redact(text))
    return wrap(plain, max(30, width), lead, "  ") if plain else []


def _end(result: Result, style: Style, strict: bool) -> Iterator[str]:
    counts = Counter(remark.severity for remark in result.remarks)
    words = ((Status.FAIL, "fail"), (Status.WARN, "warn"), (Status.UNKNOWN, "cannot be told"))
    parts = [say(f"{counts[severity]} {word}") for severity, word in words if counts[severity]]
    if not parts or not result.known:
        parts.append(say(_nothing(result)))
    said = say(", ").join(parts)
    waived = say("; ") + say(f"{len(result.waived)} waived in the file") if result.waived else ""
    fixes = sum(remark.fix is not None for remark in result.remarks)
    yield from wrap(f"{said}{waived}", max(30, style.width))
    if result.job:
        method = result.job.method
        named = " ".join(filter(None, (method.method, method.variant, method.role)))
        yield from wrap(say(f"written from the recipe {result.job.recipe.name}, {named}"), max(30, style.width))
    if fixes:
        yield say(f"--fix mends {fixes} of them in a copy")
    for name in result.beside[:3]:
        told = say(f"of {safe(name)} only the degrees were looked at: envcheck lint {safe(shlex.quote(name))}")
        yield from wrap(told, max(30, style.width))


def _nothing(result: Result) -> str:
    """What was not judged does not look as if it were well."""
    if not result.read:
        return "no shell, YAML, JSON or Dockerfile in it: nothing was read"
    return "nothing to remark" if result.known else "no training's configuration that is known: only its form was read"


def as_json(result: Result, strict: bool) -> str:
    document = {
        "schema": SCHEMA_VERSION,
        "file": result.source.name,
        "device": result.device or None,
        "read": result.read,
        "shellcheck": result.shellcheck,
        **_outcome(result, exit_code(result, strict)),
        "job": result.job.as_json() if result.job else None,
        "findings": [_object(result, remark) for remark in result.remarks],
        "waived": [_object(result, remark) for remark in result.waived],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _outcome(result: Result, code: int) -> dict[str, Any]:
    """The end of the command: the worst remark, or why nothing was judged, is the error."""
    worst = max(result.remarks, key=lambda remark: remark.severity, default=None)
    if worst is None or not result.known:
        return errors.outcome(code, _nothing(result))
    return errors.outcome(code, f"{worst.rule}: {safe(redact(worst.seen))}", safe(redact(worst.remedy)))


def _object(result: Result, remark: Remark) -> dict[str, Any]:
    line, column = result.source.place(remark.start)
    end_line, end_column = result.source.place(remark.end)
    return {
        "rule": remark.rule,
        "severity": remark.severity.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "seen": redact(remark.seen),
        "evidence": source_line(result, remark).strip(),
        "remedy": remark.remedy,
        "fix": remark.fix is not None,
        "origin": remark.origin,
    }
