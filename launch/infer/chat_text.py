"""Print the result of a chat on standard error; only the answer goes to standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from envcheck.core import language
from envcheck.core.messages import Message, _, fill
from envcheck.core.secrets import redact_text
from launch.infer.dialogue import WHY, DialogueOutcome
from launch.run import states
from launch.run.run_text import format_row, print_line, print_translated


def as_values(question: str, outcome: DialogueOutcome) -> dict[str, Any]:
    """Return the question and its outcome for run.json."""
    return {
        "outcome": outcome.how,
        "question": redact_text(question),
        "answer": outcome.answer,
        "ready_s": outcome.ready_s,
        "answer_s": outcome.answer_s,
        "lines": list(outcome.lines),
    }


def print_end(run: Path, how: str, status: int | None, outcome: DialogueOutcome | None, why: str) -> None:
    """Print the outcome (`how` is a key of states.ENDS), and after a failure the last output and the next step."""
    if outcome and outcome.how == "answered":
        took = _(
            "answered in {answer_s:g} s, ready after {ready_s:g} s",
            answer_s=outcome.answer_s,
            ready_s=outcome.ready_s,
        )
        print_translated(_add_status(took, status))
    elif outcome:
        failure = _add_status(fill(WHY[outcome.how]), status)
        print_translated(_("{failure}; last output:", failure=failure) if outcome.lines else failure)
        for line in outcome.lines:
            print_line(f"  | {line}")
        print_line(f"  {language.translate(_('next: '))}{language.translate(_suggest_next(run, outcome))}")
    elif how == states.UNSTARTED:
        print_translated(_("failed to start: {why}", why=why))
    else:
        if how == states.BY_USER and sys.stderr.isatty():
            print_line()  # below the terminal's ^C
        print_translated(_add_status(fill(states.ENDS[how].state), status))
    print_line(format_row(_("record"), run / "run.json", 9))


def _add_status(outcome: Message, status: int | None) -> Message:
    return outcome if status in (None, 0) else _("{outcome} (exit status {status})", outcome=outcome, status=status)


def _suggest_next(run: Path, outcome: DialogueOutcome) -> Message:
    if outcome.how in ("unready", "silent"):
        return _("increase --answer-timeout, or omit --ask and watch the chat program")
    if outcome.how in ("ended", "traceback"):
        return _("explain the error with `envcheck explain {folder}`", folder=run / "log")
    return _("omit --ask and type the question in the chat program")
