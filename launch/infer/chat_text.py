"""A talk in words for a person, on standard error; the answer alone goes to standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from envcheck.core import language
from envcheck.core.secrets import redact
from launch.infer.dialogue import WHY, DialogueOutcome
from launch.run.run_text import row, say, spoken_aside


def as_values(question: str, outcome: DialogueOutcome) -> dict[str, Any]:
    """For the record and for programs."""
    return {
        "how": outcome.how,
        "question": redact(question),
        "answer": outcome.answer,
        "ready_s": outcome.ready_s,
        "answer_s": outcome.answer_s,
        "lines": list(outcome.lines),
    }


def end(run: Path, state: str, status: int | None, outcome: DialogueOutcome | None, why: str) -> None:
    """How it went, and after a failure its last words."""
    if outcome and outcome.how == "answered":
        took = f"answered: ready after {outcome.ready_s:g} s, the answer took {outcome.answer_s:g} s"
        say(f"{language.say(took)}{_left(status)}")
    elif outcome:
        last = language.say("; its last words:") if outcome.lines else ""
        say(f"{language.say(f'no answer: {WHY[outcome.how]}')}{_left(status)}{last}")
        for line in outcome.lines:
            say(f"  | {line}")
        say(f"  {language.say('next: ')}{language.say(_next(run, outcome))}")
    elif state == "unstarted":
        spoken_aside(f"could not be started: {why}")
    else:
        if state == "interrupted" and sys.stderr.isatty():
            say()  # below the terminal's ^C
        say(f"{language.label(state)}{_left(status)}")
    say(row("record", run / "run.json", 9))


def _left(status: int | None) -> str:
    return "" if status in (None, 0) else language.say(f", and it ended with status {status}")


def _next(run: Path, outcome: DialogueOutcome) -> str:
    if outcome.how in ("unready", "silent"):
        return "give it longer with --deadline, or leave --ask out and look at it"
    if outcome.how in ("ended", "traceback"):
        return f"envcheck explain {run / 'log'} says what is known of such an error"
    return "leave --ask out and talk with it yourself"
