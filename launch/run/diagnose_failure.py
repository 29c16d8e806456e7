"""What a run that failed says of its cause: the log of the worker that failed first, the launcher's, the kernel's."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import Any

from envcheck.core.secrets import redact
from envcheck.explain import Diagnosis, diagnose
from envcheck.explain import kernel as kernel_log
from launch.run.launcher import Ending

TAIL = 4 << 20  # bytes of a log: an error and what led to it; reading them takes a tenth of a second
FAILED = ("failed", "unstarted")
HUNG = "watch.launcher"  # the rule that ends a launcher which failed by itself and stayed


def diagnosed(run: Path, end: Ending, began_s: float) -> tuple[Diagnosis, ...]:
    """The cause first; () where nothing is known, or nothing failed.  `began_s` in seconds since 1970."""
    hung = bool(end.stopped and end.stopped.name == HUNG)
    if end.how not in FAILED and not hung:
        return ()
    code = None if hung else end.failed.code if end.failed else end.status  # ended by us, its code says nothing
    asked = code in (-signal.SIGKILL, -signal.SIGBUS, None) and not hung
    said = kernel_log.lines(began_s) if asked else None
    logs = [f"workerlog.{end.failed.rank}"] if end.failed else []
    for name in (*logs, "launcher.log"):
        told = diagnose(_tail(run / "log" / name), name=name, code=code, kernel=said or ())
        if told:
            return told
    return ()


def _tail(path: Path) -> list[str]:
    """The whole lines of a log's end."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            return file.read(TAIL).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def values(told: tuple[Diagnosis, ...]) -> list[dict[str, Any]]:
    """For the record."""
    return [_plain(dataclasses.asdict(one)) for one in told]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value
