"""What goes wrong, as sentences with a next step and an exit code; cli.py is the one place that prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIT, UNFIT, USAGE, UNTOLD, STEP_FAILED, TRAINING_FAILED, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130


def outcome(code: int, error: str = "", next_step: str = "") -> dict[str, Any]:
    """What a document of --json says of its command's end; of a good one (code 0) neither an error nor a next step."""
    return {"error": (error or None) if code else None, "exit_code": code, "next": next_step if code else ""}


class EnvcheckError(Exception):
    """A failure that the user is told in one sentence; `next_step` says what to do, `code` is the exit code.

    `document`: what the command knows besides, for the document of --json.
    """

    code = UNFIT
    document: Mapping[str, Any] = {}

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message, self.next_step = message, next_step


class UsageError(EnvcheckError):
    """Asked wrongly: an unknown name, an unreadable file, options that contradict each other."""

    code = USAGE


class UntoldError(EnvcheckError):
    """The answer could not be found out."""

    code = UNTOLD


class StepError(EnvcheckError):
    """A provisioning or launch step failed; the journal names it."""

    code = STEP_FAILED
