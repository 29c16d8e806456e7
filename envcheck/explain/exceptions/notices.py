"""Exceptions by which a launcher, a pool or a trainer only reports that something else failed; pure."""

from __future__ import annotations

import re

_NOTICE = re.compile(
    r"^(?:[\w.]{0,120}\.)?(?:ChildFailedError|CalledProcessError|SignalException|ProcessExitedException|ProcessRaisedException"
    r"|RemoteTraceback|SystemExit|BrokenProcessPool|RayTaskError\S{0,80}|ActorDiedError|RayActorError|WorkerCrashedError"
    r"|DatasetGenerationError|BrokenPipeError|ProcessLookupError|RendezvousGracefulExitError|RendezvousClosedError)\b"
    r"|^RuntimeError: One of the subprocesses has abruptly died"
    r"|^[\w.]{3,80}: Caught \w{1,60} in (?:DataLoader worker|pin memory|replica)"
    r"|^RuntimeError: Engine core initialization failed"
    r"|^SystemError: \(Fatal\) Blocking queue is killed because the data reader|^RuntimeError: Pin memory thread exited"
    r"|^RuntimeError: DataLoader worker|^\S{0,40}RaySystemError: System error: Failed to unpickle"
    r"|^(?:RuntimeError|ValueError): (?:Worker failed with error|Failed to start (?:workers|engine)"
    r"|Rank \d{1,5} scheduler died|Engine process failed)"
)
# Exceptions that wrap what another layer reported before: an earlier known line explains them.
_GENERAL = re.compile(
    r"^(?:RuntimeError|Exception|OSError|SystemError|ExternalError"
    r"|[\w.]{0,80}(?:DistBackendError|DistStoreError|EngineDeadError))\b"
)
_REPORT = re.compile(
    r"^[\w.]{1,120}: (?: {0,3}[/|+ ]{0,8}[-=*#~_]{6,}|.{0,120}\b(?:[Oo]utput|stderr|stdout):(?:\s|$))"
    r"|\b[Rr]efer to .{0,20}[Ee]rror [Mm]essage|: Launch kernel failed\b"
)
# The attempts to load a compiled part, and why each failed, are listed below the first line.
_LISTED_LOADS = re.compile(
    r"^(?:ImportError|OSError|RuntimeError): .{0,60}\b(?:[Cc]ould not|[Ff]ailed to|[Uu]nable to) load\b"
)
# A library's number is all that the exception has; the library's own report follows in the next lines.
_ONLY_CODE = re.compile(r"\b(?:error code|ret(?:urn)?(?: code| value)?|status|errno)(?: is)?[ :=]{1,3}-?\d{1,6}\b")
# What a program prints after a traceback with which it copes: it takes another sample, or tries again.
_SKIPPED = re.compile(
    r"another piece of data will be randomly selected"
    r"|[Ss]kip(?:ping|ped) (?:this|the|bad|broken|invalid) (?:sample|batch|file|example|image|video|record)"
)
_RETRIED = re.compile(
    r"\b[Rr]etrying (?:in|after|\(|\d)|\bwill (?:retry|be retried|be skipped)\b(?! no )|\b[Ff]all(?:ing|s)? back to\b"
)
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")
# What a program prints before the traceback of an exception that it reports and survives: at a level below an error.
_REPORTED = re.compile(
    r"^(?!.{0,160}\b(?:ERROR|CRITICAL|FATAL)\b).{0,120}\b(?:WARN(?:ING)?|INFO|DEBUG)\b"
    r".{0,300}(?:\b(?:[Ff]ail\w{0,4}|[Ee]rror|[Ee]xception|[Cc]ould not|[Cc]annot|[Ii]gnor\w{2,4})\b|: ?$)"
)
# What Python prints before the traceback of an exception that ended a thread or a task, not the program.
_IN_THREAD = re.compile(r"Exception in thread |exception was never retrieved|(?:^|[\]:] ?)future: <(?:Task|Future) ")
# Python's own exceptions whose message has one line: what follows is of another writer.
_OF_ONE_LINE = re.compile(r"^(?:Key|Index|Name|UnboundLocal|ZeroDivision|Recursion|Overflow)Error\b")
_IN_HANDLER = "During handling of the above exception, another exception occurred"
# Exceptions that a handler raises by accident, mostly because what it cleans up was never made.
_ACCIDENT = re.compile(r"^(?:AttributeError: 'NoneType'|NameError|UnboundLocalError)")
# A program that waited for another part of itself raises one of these.
_WAITED = re.compile(r"^(?:[\w.]{0,80}\.)?(?:Empty|TimeoutError|BrokenBarrierError|CancelledError)\b")


def is_handled(line: str) -> bool:
    """Return whether the line after a traceback tells that the program will continue; it may still not do so."""
    return bool(_SKIPPED.search(line) or (_RETRIED.search(line) and not _ERROR.search(line)))


def is_reported(line: str) -> bool:
    """Return whether the line before a traceback reports it at a level below an error."""
    return bool(_REPORTED.match(line))


def is_in_thread(line: str) -> bool:
    """Return whether the line before a traceback tells that the exception ended a thread or a task."""
    return bool(_IN_THREAD.search(line))


def is_in_handler(line: str) -> bool:
    """Return whether the line before a traceback tells that another exception was being handled."""
    return _IN_HANDLER in line


def is_accident(text: str) -> bool:
    """Return whether a handler raises such an exception by accident: what it handled is the failure."""
    return bool(_ACCIDENT.match(text))


def has_one_line(text: str) -> bool:
    """Return whether the lines after the exception's own line cannot belong to its message."""
    return bool(_OF_ONE_LINE.match(text))


def has_waited(text: str) -> bool:
    """Return whether the exception tells that something did not come in time."""
    return bool(_WAITED.match(text))


def is_notice(text: str) -> bool:
    """Return whether the exception only reports the failure of another process or part."""
    return bool(_NOTICE.match(text))


def is_general(text: str) -> bool:
    """Return whether the type tells nothing: a library raises it for what it was told from below."""
    return bool(_GENERAL.match(text))


def begins_report(text: str) -> bool:
    """Return whether what went wrong is below the message: it begins with a drawn line or refers to a report."""
    return bool(_REPORT.search(text))


def lists_loads(text: str) -> bool:
    """Return whether the exception's message lists, in its further lines, the libraries that could not be loaded."""
    return bool(_LISTED_LOADS.match(text))


def is_only_code(text: str) -> bool:
    """Return whether the exception passes on the number of a library's error, which the library reports itself."""
    return is_general(text) and bool(_ONLY_CODE.search(text))
