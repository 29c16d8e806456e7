"""Diagnose a failed run by the logs of the first failed worker, the launcher and the kernel."""

from __future__ import annotations

import dataclasses
import re
import shlex
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core.lint.own_job import COMMAND
from envcheck.core.secrets import redact_text
from envcheck.explain import Diagnosis, diagnose, kernel_log
from launch.run import states
from launch.run.launcher import TrainingEnd

TAIL = 4 << 20  # bytes read from the end of a log; takes about 0.1 s
FAILED = (states.FAILED, states.UNSTARTED)
# In the catalogue of explanations; options such as --search precede a command of the user's.
_GENERIC = re.compile(r"\b(envcheck (?:plan|train)) --model MODEL --method METHOD((?: --[\w-]+(?: \w+)?)*)")
_LOGS = re.compile(r"runs/<run>/log|<log>")  # there as well
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
TRACEBACK = "Traceback (most recent call last)"
HUNG = "watch.launcher"  # the stop rule for a launcher that failed but did not exit


def name_own_job(diagnoses: Iterable[Diagnosis], record: Mapping[str, Any]) -> tuple[Diagnosis, ...]:
    """Return the diagnoses with the run's log, model and method in the commands, or the file or command of an own job.

    Only plain names of the record are used.
    """
    named, folder = _name_job(record), record.get("folder")
    logs = shlex.quote(f"{folder}/log") if isinstance(folder, str) and folder.isprintable() else ""

    def name_job(text: str) -> str:
        text = _LOGS.sub(lambda _match: logs, text) if logs else text
        return _GENERIC.sub(lambda match: f"{match[1]}{match[2]} {named}", text) if named else text

    return tuple(dataclasses.replace(one, commands=tuple(map(name_job, one.commands))) for one in diagnoses)


def _name_job(record: Mapping[str, Any]) -> str:
    """The words after the options of `envcheck plan` that name the job of a run, "" if unknown."""
    if isinstance(said := record.get("own"), Mapping):
        if _is_file(said.get("source")):
            return shlex.quote(str(said["source"]))
        words = said.get("command")
        return f"-- {shlex.join(map(str, words))}" if isinstance(words, list) and words else ""
    model, method = (_plain_name(record.get(key)) for key in ("model", "method"))
    return f"--model {model} --method {method}" if model and method else ""


def _is_file(source: object) -> bool:
    """Whether an own job has a file that `envcheck plan` reads."""
    return isinstance(source, str) and source != COMMAND and source.isprintable()


def _plain_name(name: object) -> str:
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def diagnose_run(run: Path, end: TrainingEnd, began_s: float) -> tuple[Diagnosis, ...]:
    """Return the diagnoses, the cause first; () if there are none or nothing failed.  `began_s`: seconds since 1970."""
    hung = bool(end.stopped and end.stopped.name == HUNG)
    if end.how not in FAILED and not hung:
        return ()
    code = None if hung else end.failed.code if end.failed else end.status  # ended by envcheck: the code is meaningless
    has_raised = code is None and end.failed is not None and any(TRACEBACK in line for line in end.failed.lines)
    # The kernel's log is about all processes of the host: one that ended by an exception was not ended by the kernel.
    needs_kernel_log = code in (-signal.SIGKILL, -signal.SIGBUS, None) and not hung and not has_raised
    kernel = kernel_log.read_lines(began_s) if needs_kernel_log else None
    logs = [f"workerlog.{end.failed.rank}"] if end.failed else []
    for name in (*logs, "launcher.log"):
        found = diagnose(_read_tail(run / "log" / name), name=name, code=code, kernel=kernel or ())
        if found:
            return found
    return ()


def _read_tail(path: Path) -> list[str]:
    """Return the last lines of a log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            return file.read(TAIL).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def list_diagnosis_values(diagnoses: tuple[Diagnosis, ...]) -> list[dict[str, Any]]:
    """Return the diagnoses as JSON values without secrets."""
    return [_redact_values(dataclasses.asdict(one)) for one in diagnoses]


def _redact_values(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {key: _redact_values(inner) for key, inner in value.items()}
    return [_redact_values(inner) for inner in value] if isinstance(value, (list, tuple)) else value
