"""Errors with a message, a next step and an exit code. Only envcheck/cli prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.core.messages import NOTHING, Message, fill, mark

SUCCESS, CHECK_FAILED, USAGE, UNDETERMINED, STEP_FAILED, TRAINING_FAILED, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130
REBOOT_NEEDED = 6
# A command ended by itself, and would do so again.
FAILURES = (CHECK_FAILED, USAGE, UNDETERMINED, STEP_FAILED, TRAINING_FAILED, REBOOT_NEEDED, BUG)


def outcome_fields(code: int, error: str = "", next_step: str = "") -> dict[str, Any]:
    """Return the fields of a --json document that describe how the command ended; `error` and `next` are empty for exit
    code 0."""
    return {"error": (error or None) if code else None, "exit_code": code, "next": next_step if code else ""}


# The most frequent error texts of the kernel, so that they are translated; any other text is quoted unchanged.
OS_ERRORS = (
    *(mark("permission denied"), mark("no such file or directory"), mark("file exists"), mark("is a directory")),
    *(mark("not a directory"), mark("no space left on device"), mark("read-only file system")),
    *(mark("operation not permitted"), mark("input/output error"), mark("disk quota exceeded")),
    *(mark("address already in use"), mark("connection refused"), mark("connection reset by peer")),
    *(mark("connection timed out"), mark("no route to host"), mark("network is unreachable")),
    *(mark("name or service not known"), mark("temporary failure in name resolution"), mark("broken pipe")),
    *(mark("cannot allocate memory"), mark("too many open files"), mark("device or resource busy")),
    *(mark("file name too long"), mark("exec format error"), mark("too many levels of symbolic links")),
)


def describe_os_error(err: OSError) -> Message:
    """Return the reason of an OSError in lower case, as a part of a longer message."""
    return fill((err.strerror or str(err)).lower())


class EnvcheckError(Exception):
    """A failure that is reported as one message; `next_step` is the suggested action, `code` the exit code.

    `document` has further results of the command for its --json document.
    """

    code = CHECK_FAILED
    document: Mapping[str, Any] = {}

    def __init__(self, message: Message, next_step: Message = NOTHING) -> None:
        super().__init__(message)
        self.message, self.next_step = message, next_step


class UsageError(EnvcheckError):
    """The command line or an input file is wrong: an unknown name, an unreadable file, conflicting options."""

    code = USAGE


class UndeterminedError(EnvcheckError):
    """envcheck could not determine the result."""

    code = UNDETERMINED


class StepError(EnvcheckError):
    """A provisioning or launch step failed; the journal records which one."""

    code = STEP_FAILED
