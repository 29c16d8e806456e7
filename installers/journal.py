"""What was done to an environment, when, and how it ended: one JSON document a line, appended, on the disk at once."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path

from envcheck.secrets import redact
from installers import mark


def path(environment: Path) -> Path:
    return mark.folder_of(environment) / "journal.jsonl"


def write(environment: Path, step: str, event: str, **more: object) -> None:
    """`event` is begun, done, failed or interrupted."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    line = redact(json.dumps({"time": now, "step": step, "event": event, "pid": os.getpid(), **more}))
    with path(environment).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
