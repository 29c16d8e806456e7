"""Render the results of several files: as text, one after the other with a summary, and as one JSON document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from envcheck.core import errors
from envcheck.core.language import translate
from envcheck.core.language.width import wrap_text
from envcheck.core.messages import Message, _, ngettext
from envcheck.core.version import SCHEMA_VERSION
from envcheck.lint.files import FileResult, LintRun
from envcheck.lint.render_remarks import as_text, join_some, make_document
from envcheck.report import Style, safe


def run_as_text(run: LintRun, style: Style, strict: bool = False) -> str:
    """Return the results one after the other, files without findings in a line each, and the summary."""
    lines = [line for each in run.results for line in _render_file(each, style, strict)]
    return "\n".join([*lines, *_render_summary(run, style, strict)]) + "\n"


def _render_file(file: FileResult, style: Style, strict: bool) -> Iterator[str]:
    if file.error is not None:
        yield from _wrap(_("{name}: not checked: {reason}", name=safe(file.name), reason=file.error.message), style)
    if file.result is None:
        return
    if file.result.remarks or file.find_exit_code(strict):
        yield as_text(file.result, style, strict, file.name)
    else:
        yield from _wrap(_("{name}: no issues found", name=safe(file.name)), style)
        unchecked = list(dict.fromkeys(part for each in file.result.readings for part in each.unchecked))
        if unchecked:
            yield from _wrap(_("not checked: {parts}", parts=join_some(unchecked)), style, "  ")


def _wrap(text: Message, style: Style, lead: str = "") -> list[str]:
    return wrap_text(translate(text), max(30, style.width), lead, "  ")


def _render_summary(run: LintRun, style: Style, strict: bool) -> Iterator[str]:
    """The number of files by outcome."""
    codes = Counter(each.find_exit_code(strict) for each in run.results)
    total = len(run.results)
    parts = [translate(ngettext("{count} file checked", "{count} files checked", total))]
    parts += [translate(_describe_outcome(code, codes[code])) for code in (1, 2, 3, 0) if codes[code]]
    if run.skipped:
        parts.append(
            translate(
                ngettext(
                    "{count} file of the folders belongs to no known program",
                    "{count} files of the folders belong to no known program",
                    run.skipped,
                )
            )
        )
    yield from wrap_text(translate(", ").join(parts), max(30, style.width))


def _describe_outcome(code: int, count: int) -> Message:
    """How many files have this exit code."""
    return {
        0: ngettext("{count} file without failures", "{count} files without failures", count),
        1: ngettext("{count} file failed", "{count} files failed", count),
        2: ngettext("{count} file cannot be read", "{count} files cannot be read", count),
        3: ngettext("{count} file is undetermined", "{count} files are undetermined", count),
    }[code]


def run_as_json(run: LintRun, strict: bool) -> str:
    """Return one document: the result of each file, and of all."""
    documents = [_make_file_document(each, strict) for each in run.results]
    code = run.find_exit_code(strict)
    worst = next((each for each in documents if each["exit_code"] == code), None)
    error = worst["error"] if worst is not None else _("no script or configuration found")
    return json.dumps(
        {
            "schema": SCHEMA_VERSION,
            **errors.outcome_fields(code, error or "", worst["next"] if worst is not None else ""),
            "files": [each for each in documents if "findings" in each],
            "unreadable": [each for each in documents if "findings" not in each],
            "skipped": run.skipped,
        },
        indent=1,
        ensure_ascii=False,
    )


def _make_file_document(file: FileResult, strict: bool) -> dict[str, Any]:
    if file.result is not None:
        return make_document(file.result, strict)
    reason, next_step = (file.error.message, file.error.next_step) if file.error is not None else ("", "")
    return {"file": file.name, **errors.outcome_fields(2, reason, next_step)}
