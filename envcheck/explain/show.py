"""A report for people and for programs; decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envcheck.core.errors import outcome
from envcheck.core.language import say, width
from envcheck.core.version import SCHEMA_VERSION
from envcheck.explain.localize import spoken
from envcheck.explain.model import Diagnosis, Entry, Evidence, Raised, Report
from envcheck.report import Style

TOLD = 5  # diagnoses told at length; of the others the first line
_HEADS = {
    "cause": "cause",
    "symptom": "may be a cause, or follow",
    "summary": "report of an end",
    "warning": "also seen",
}
_NO_FILES = ("standard input", "command line", "kernel log")  # what is read besides files
_COLOURS = {"cause": "31", "symptom": "33", "summary": "2", "warning": "2"}


UNKNOWN = "nothing that the catalogue knows"
UNKNOWN_NEXT = "have a whole log read, `envcheck explain FILE`; `envcheck explain --list` tells what is known"


def verdict(report: Report) -> str:
    return "explained" if report.diagnoses else "unknown"


def as_json(report: Report, code: int) -> str:
    """One document."""
    return json.dumps(
        {
            "schema": SCHEMA_VERSION,
            "verdict": verdict(report),
            **outcome(code, UNKNOWN, UNKNOWN_NEXT),
            "first_failed": report.first or None,
            "notes": list(report.notes),
            "diagnoses": [_diagnosis(spoken(one)) for one in report.diagnoses],
            "exception": _raised(report.raised),
            "telling": [_line(line) for line in report.telling],
            "read": [{"name": name, "lines": lines, "bytes": size} for name, lines, size in report.read],
        },
        indent=1,
        ensure_ascii=True,
    )


def _diagnosis(one: Diagnosis) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "says": one.says,
        "why": one.why,
        "remedy": {"words": one.do, "commands": list(one.commands)},
        "source": list(one.source),
        "applies": list(one.applies),
        "follows": one.follows or None,
        "count": one.count,
        "evidence": [_line(line) for line in one.evidence],
    }


def _line(line: Evidence) -> dict[str, Any]:
    return {"file": line.file, "line": line.line, "text": line.text}


def _raised(raised: Raised | None) -> dict[str, Any] | None:
    if raised is None:
        return None
    where = {"raised_in": raised.raised_in or None, "called_from": raised.called_from or None}
    return {"what": raised.what, "file": raised.file, "line": raised.line, **where}


def as_text(report: Report, style: Style) -> str:
    """The causes at length, then what follows from them, then the exception; else the most telling lines."""
    return "\n".join(_text(report, style)) + "\n"


def _text(report: Report, style: Style) -> Iterator[str]:
    for note in report.notes:
        yield from _wrapped(say(f"run {note}"), style)
    if report.notes and not report.first:
        yield ""
    if report.first:
        yield from _wrapped(say("first to fail: {}").format(_name(report.first)), style)
        yield ""
    loud = [one for one in report.diagnoses if not (one.follows and one.kind in ("summary", "symptom"))]
    for one in loud[:TOLD]:
        yield from _told(one, style)
        yield ""
    rest = [one for one in report.diagnoses if one not in loud[:TOLD]]
    for one in rest:
        yield from _brief(one, style)
    if rest:
        yield ""
    if report.raised:
        yield from _exception(report.raised, style)
        yield ""
    if not report.diagnoses:
        yield from _unknown(report, style)
    elif report.telling:
        yield from _lines("nothing in the catalogue says why it ended; the most telling lines:", report.telling, style)


def _told(one: Diagnosis, style: Style) -> Iterator[str]:
    one, head = spoken(one), say(_HEADS[one.kind])
    mark = f"[{head}]"
    mark = f"\x1b[{_COLOURS[one.kind]}m{mark}\x1b[0m" if style.colour else mark
    yield from _wrapped(f"{head}{say(': ')}{one.says} ({one.name})", style, "", "    ", mark)
    for line in one.evidence[:1]:
        yield from _wrapped(f"| {_where(line)}{_seen(line)[:400]}", style, "    ", "    | ")
    if one.count > 1:
        yield f"    | {say(f'{one.count} such lines')}"
    yield from _wrapped(one.why, style, "    ", "    ")
    yield from _wrapped(one.do, style, f"    {say('do: ')}", "    ")
    yield from (f"      $ {command}" for command in one.commands)
    if one.source:
        yield from _wrapped(one.source[0], style, f"    {say('see ')}", "        ")


def _where(line: Evidence) -> str:
    return f"{_name(line.file)}:{line.line}: " if line.line else ""


def _name(file: str) -> str:
    """A file's as it is, ours for what is none in the chosen language."""
    return say(file) if file in _NO_FILES else file


def _seen(line: Evidence) -> str:
    """A log's line to the letter; of a bare code what it means, which is ours to say."""
    text = line.text.strip()
    theirs = text.removesuffix(line.ours) if line.ours else text
    return theirs if theirs == text else theirs.replace(": ", say(": ")) + say(line.ours)


def _brief(one: Diagnosis, style: Style) -> Iterator[str]:
    one, follows = spoken(one), f"{say(', ')}{say(f'follows from {one.follows}')}" if one.follows else ""
    head = say("consequence" if one.follows else _HEADS[one.kind])
    yield from _wrapped(f"{head}{say(': ')}{one.says} ({one.name}{follows})", style, "", "    ")
    for line in one.evidence[:1]:
        yield from _wrapped(f"| {_where(line)}{_seen(line)[:160]}", style, "    ", "    | ")


def _exception(raised: Raised, style: Style) -> Iterator[str]:
    yield from _wrapped(say("last exception: {}").format(raised.what), style, "", "    ")
    yield from _wrapped(f"{raised.file}:{raised.line}", style, f"    {say('traceback at ')}", "    ")
    if raised.raised_in:
        yield from _wrapped(raised.raised_in, style, f"    {say('raised in ')}", "        ")
    if raised.called_from:
        yield from _wrapped(raised.called_from, style, f"    {say('called from ')}", "        ")


def _unknown(report: Report, style: Style) -> Iterator[str]:
    read = say(", ").join(_read(name, lines) for name, lines, _ in report.read[:3])
    more = say(" and {} more").format(len(report.read) - 3) if len(report.read) > 3 else ""
    said = say("unknown: nothing that the catalogue knows ({}{})").format(read, more)
    yield from _wrapped(said, style, "", "    ")
    if report.telling:
        yield from _lines("the most telling lines:", report.telling, style)
    elif any(name != "command line" for name, _, _ in report.read):
        yield say("no line speaks of an error")
    else:
        yield from _wrapped(f"{say('next: ')}{say(UNKNOWN_NEXT)}", style, "", "    ")


def _read(name: str, lines: int) -> str:
    if name == "command line":  # a code or a text: nobody counts its lines
        return _name(name)
    return say("{}: 1 line" if lines == 1 else "{}: {} lines").format(_name(name), lines)


def _lines(head: str, lines: Sequence[Evidence], style: Style) -> Iterator[str]:
    yield from _wrapped(say(head), style)
    for line in lines:
        yield from _wrapped(f"| {_where(line)}{line.text.strip()[:300]}", style, "    ", "    | ")


def _wrapped(text: str, style: Style, first: str = "", then: str = "", mark: str = "") -> list[str]:
    text = text if style.unicode else text.encode("ascii", "replace").decode()
    return width.wrap(text, max(20, style.width), first, then) or [first]


def listing(entries: Iterable[Entry], style: Style) -> str:
    """--list."""
    entries = tuple(entries)
    wide = max(len(entry.name) for entry in entries) + 2
    lines = []
    for entry in entries:
        if style.width < wide + 40:
            lines += [entry.name, *_wrapped(say(entry.says), style, "    ", "    ")]
        else:
            lines += _wrapped(say(entry.says), style, f"{entry.name:{wide}}", " " * wide)
    return "\n".join(lines)


def markdown(entries: Iterable[Entry]) -> str:
    """The table of docs/explain.md."""
    rows = ["| entry | kind | says | codes | source |", "| --- | --- | --- | --- | --- |"]
    for entry in entries:
        source = " ".join(f"<{s}>" if s.startswith("http") else s.rstrip(".") + "." for s in entry.source[:1])
        says, codes = (
            entry.says.replace("|", "\\|"),
            ", ".join(entry.codes[:6]) + (", ..." if len(entry.codes) > 6 else ""),
        )
        rows.append(f"| `{entry.name}` | {entry.kind} | {says} | {codes} | {source} |")
    return "\n".join(rows)
