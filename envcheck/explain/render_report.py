"""Render the report as text or JSON; no decisions here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envcheck.core.errors import outcome_fields
from envcheck.core.language import translate, width
from envcheck.core.language.source_links import translate_source
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.version import SCHEMA_VERSION
from envcheck.explain.diagnosis import QUIET, CatalogueEntry, Diagnosis, Evidence, ExplainReport, RaisedException
from envcheck.explain.localize import translate_diagnosis
from envcheck.explain.processes.outcome_text import VERDICTS, list_end_rows
from envcheck.explain.processes.process_end import ProcessEnd
from envcheck.report import Style

MAX_END_ROWS = 12  # groups of processes that ended alike
MAX_FULL_DIAGNOSES = 5  # diagnoses in detail; of the others only the first line
_HEADS = {
    "cause": _("cause"),
    "symptom": _("possible cause, or only a consequence"),
    "summary": _("exit report"),
    "warning": _("also seen"),
}
_NO_FILES = (_("standard input"), _("command line"), _("kernel log"))  # sources other than files
_COLOURS = {"cause": "31", "symptom": "33", "summary": "2", "warning": "2"}


UNKNOWN = _("no catalogue entry matches")
UNKNOWN_NEXT = _(
    "read the complete log with `envcheck explain FILE`, or list known failures with `envcheck explain --list`"
)


def as_json(report: ExplainReport, code: int) -> str:
    """Return one JSON document."""
    return json.dumps(
        {
            "schema": SCHEMA_VERSION,
            "verdict": report.verdict,
            **_make_outcome_fields(report, code),
            "summary": str(report.summary) if report.summary else None,
            "first_failed": report.first or None,
            "processes": [_make_process_object(end) for end in report.ends],
            "notes": list(report.notes),
            "diagnoses": [_make_diagnosis_object(translate_diagnosis(one)) for one in report.diagnoses],
            "exception": _make_exception_object(report.raised),
            "relevant_lines": [_make_line_object(line) for line in report.relevant_lines],
            "files": [{"name": name, "lines": lines, "bytes": size} for name, lines, size in report.read],
        },
        indent=1,
        ensure_ascii=True,
    )


def _make_diagnosis_object(one: Diagnosis) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "description": one.description,
        "why": one.why,
        "installed": list(one.installed),
        "remedy": {"words": one.do, "commands": list(one.commands)},
        "source": list(one.source),
        "applies_to": list(one.applies_to),
        "caused_by": one.caused_by or None,
        "count": one.count,
        "evidence": [_make_line_object(line) for line in one.evidence],
    }


def _make_outcome_fields(report: ExplainReport, code: int) -> dict[str, Any]:
    """For a failure with a known cause, its headline and remedy."""
    cause = next((one for one in report.diagnoses if one.kind in ("cause", "symptom")), None)
    if code == 1 and cause:
        return outcome_fields(code, cause.description, cause.do)
    return outcome_fields(code, UNKNOWN, UNKNOWN_NEXT)


def _make_process_object(end: ProcessEnd) -> dict[str, Any]:
    return {
        "log": end.log,
        "rank": end.rank,
        "host": end.host or None,
        "end": end.how,
        "reason": end.reason or None,
        "line": end.line or None,
        "place": end.place or None,
        "clock": end.clock or None,
        "last_step": end.step,
        "waits_in": end.waits or None,
        "names_ranks": list(end.named),
    }


def _make_line_object(line: Evidence) -> dict[str, Any]:
    return {"file": line.file, "line": line.line, "text": line.text}


def _make_exception_object(raised: RaisedException | None) -> dict[str, Any] | None:
    if raised is None:
        return None
    where = {"raised_in": raised.raised_in or None, "called_from": raised.called_from or None}
    return {"text": raised.text, "file": raised.file, "line": raised.line, **where}


def as_text(report: ExplainReport, style: Style) -> str:
    """Return the causes in detail, then consequences, then the exception; otherwise the most relevant lines."""
    return "\n".join(_render_lines(report, style)) + "\n"


def _render_lines(report: ExplainReport, style: Style) -> Iterator[str]:
    for note in report.notes:
        yield from _wrap_text(translate(_("run {note}", note=note)), style)
    if report.notes and not report.first:
        yield ""
    if outcome := [*_render_outcome(report, style)]:
        yield from (*outcome, "")
    loud = [one for one in report.diagnoses if not one.caused_by]
    for one in loud[:MAX_FULL_DIAGNOSES]:
        yield from _render_diagnosis(one, style)
        yield ""
    rest = [one for one in report.diagnoses if one not in loud[:MAX_FULL_DIAGNOSES]]
    for one in rest:
        yield from _render_brief(one, style)
    if rest:
        yield ""
    if report.raised and not _is_shown(report.raised, report.diagnoses):
        yield from _render_exception(report.raised, style)
        yield ""
    if report.verdict in QUIET:
        return
    if not report.diagnoses:
        yield from _render_unknown(report, style)
    elif report.relevant_lines:
        yield from _render_evidence(
            _("no catalogue entry explains the exit; most relevant lines:"), report.relevant_lines, style
        )


def _render_outcome(report: ExplainReport, style: Style) -> Iterator[str]:
    """The verdict, which process failed first, and how each ended."""
    if report.verdict not in ("explained", "unknown", "failed") and not report.notes:
        yield from _wrap_text(translate(_("verdict: {verdict}", verdict=VERDICTS[report.verdict])), style, "", "    ")
    if report.verdict == "failed" and report.summary:
        yield from _wrap_text(translate(report.summary), style, "", "    ")
    if report.first:
        yield from _wrap_text(
            translate(_("first process to fail: {log}", log=_translate_file_name(report.first))), style
        )
    if len(report.ends) > 1:
        rows = list_end_rows(report.ends)
        for process, end in rows[:MAX_END_ROWS]:
            yield from _wrap_text(f"{translate(process)}: {translate(end)}", style, "  ", "      ")
        if len(rows) > MAX_END_ROWS:
            yield f"  {translate(_('and {count} more', count=len(rows) - MAX_END_ROWS))}"


def _render_diagnosis(one: Diagnosis, style: Style) -> Iterator[str]:
    one, head = translate_diagnosis(one), translate(_HEADS[one.kind])
    mark = f"[{head}]"
    mark = f"\x1b[{_COLOURS[one.kind]}m{mark}\x1b[0m" if style.colour else mark
    yield from _wrap_text(
        translate(_("{head}: {says} ({name})", head=head, says=one.description, name=one.name)), style, "", "    ", mark
    )
    for line in one.evidence[:1]:
        yield from _wrap_text(f"| {_format_place(line)}{_quote_line(line)[:400]}", style, "    ", "    | ")
    if one.count > 1:
        yield f"    | {translate(_('{count} matching lines', count=one.count))}"
    if one.why:
        yield from _wrap_text(one.why, style, "    ", "    ")
    if one.installed:
        yield from _wrap_text(
            translate(_("versions in the log: {versions}", versions=join(", ", one.installed))), style, "    ", "    "
        )
    yield from _wrap_text(one.do, style, f"    {translate(_('next: '))}", "    ")
    yield from (f"      $ {command}" for command in one.commands)
    if one.source:
        yield from _wrap_text(translate_source(one.source[0]), style, f"    {translate(_('see '))}", "        ")


def _format_place(line: Evidence) -> str:
    return f"{_translate_file_name(line.file)}:{line.line}: " if line.line else ""


def _translate_file_name(file: str) -> str:
    """A file's name unchanged, or our name of another source in the selected language."""
    return translate(file) if file in _NO_FILES else file


def _quote_line(line: Evidence) -> str:
    """A log line verbatim; for a bare code its meaning, which is our text."""
    text = line.text.strip()
    theirs = text.removesuffix(line.ours) if line.ours else text
    return theirs if theirs == text else theirs.replace(": ", translate(": ")) + translate(line.ours)


def _render_brief(one: Diagnosis, style: Style) -> Iterator[str]:
    one = translate_diagnosis(one)
    text = (
        _("consequence: {says} ({name}, caused by {cause})", says=one.description, name=one.name, cause=one.caused_by)
        if one.caused_by
        else _("{head}: {says} ({name})", head=_HEADS[one.kind], says=one.description, name=one.name)
    )
    yield from _wrap_text(translate(text), style, "", "    ")
    for line in one.evidence[:1]:
        yield from _wrap_text(f"| {_format_place(line)}{_quote_line(line)[:160]}", style, "    ", "    | ")


def _is_shown(raised: RaisedException, diagnoses: Iterable[Diagnosis]) -> bool:
    """Return whether the exception is a single line that is evidence already."""
    places = {(line.file, line.line) for one in diagnoses for line in one.evidence}
    return not raised.raised_in and (raised.file, raised.line) in places


def _render_exception(raised: RaisedException, style: Style) -> Iterator[str]:
    yield from _wrap_text(
        translate(_("last exception: {exception}", exception=translate(raised.text))), style, "", "    "
    )
    yield from _wrap_text(f"{raised.file}:{raised.line}", style, f"    {translate(_('traceback at '))}", "    ")
    if raised.raised_in:
        yield from _wrap_text(raised.raised_in, style, f"    {translate(_('raised in '))}", "        ")
    if raised.called_from:
        yield from _wrap_text(raised.called_from, style, f"    {translate(_('called from '))}", "        ")


def _render_unknown(report: ExplainReport, style: Style) -> Iterator[str]:
    read = join(", ", (_describe_source(name, lines) for name, lines, _unused in report.read[:3]))
    if len(report.read) > 3:
        headline = _(
            "unknown: no catalogue entry matches ({sources} and {count} more)",
            sources=read,
            count=len(report.read) - 3,
        )
    else:
        headline = _("unknown: no catalogue entry matches ({sources})", sources=read)
    yield from _wrap_text(translate(headline), style, "", "    ")
    if report.relevant_lines:
        yield from _render_evidence(_("most relevant lines:"), report.relevant_lines, style)
    elif any(name != "command line" for name, _unused, _unused in report.read):
        yield translate(_("no line mentions an error"))
    else:
        yield from _wrap_text(translate(_("next: {next_step}", next_step=UNKNOWN_NEXT)), style, "", "    ")


def _describe_source(name: str, lines: int) -> Message:
    if name == "command line":  # a code or a text: its lines are not counted
        return verbatim(_translate_file_name(name))
    return ngettext("{name}: {count} line", "{name}: {count} lines", lines, name=_translate_file_name(name))


def _render_evidence(head: str, lines: Sequence[Evidence], style: Style) -> Iterator[str]:
    yield from _wrap_text(translate(head), style)
    for line in lines:
        yield from _wrap_text(f"| {_format_place(line)}{line.text.strip()[:300]}", style, "    ", "    | ")


def _wrap_text(text: str, style: Style, first: str = "", then: str = "", mark: str = "") -> list[str]:
    text = style.fit(text)
    return width.wrap_text(text, max(20, style.width), first, then) or [first]


def render_list(entries: Iterable[CatalogueEntry], style: Style) -> str:
    """Return the screen of --list; a value that only a log line has is shown as NAME, as in commands."""
    entries = tuple(entries)
    headlines = [re.sub(r"\{(\w+)\}", lambda place: place[1].upper(), translate(entry.says)) for entry in entries]
    wide = max(len(entry.name) for entry in entries) + 2
    lines = []
    for entry, headline in zip(entries, headlines, strict=True):
        if style.width < wide + 40:
            lines += [entry.name, *_wrap_text(headline, style, "    ", "    ")]
        else:
            lines += _wrap_text(headline, style, f"{entry.name:{wide}}", " " * wide)
    return "\n".join(lines)
