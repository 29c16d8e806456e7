"""What was done to an environment, when, and how it ended: one JSON document a line, appended, on the disk at once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from envcheck.core.secrets import redact
from installers.state import state_file

Entry = Mapping[str, object]
LIMIT = 64 << 20  # characters; a line has a few hundred


def path(environment: Path) -> Path:
    return state_file.folder_of(environment) / "journal.jsonl"


def write(environment: Path, step: str, event: str, **more: object) -> None:
    """`event` is begun, done, failed or interrupted."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    line = redact(json.dumps({"time": now, "step": step, "event": event, "pid": os.getpid(), **more}))
    with path(environment).open("ab+") as file:
        file.write((_new_line(file) + line + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def _new_line(file: IO[bytes]) -> str:
    """A full disk may have cut off the last line: what comes now must not become its end."""
    if not file.seek(0, os.SEEK_END):
        return ""
    file.seek(-1, os.SEEK_END)
    return "" if file.read(1) == b"\n" else "\n"


def entries(environment: Path) -> list[dict[str, object]]:
    """All that was written and can be read, in its order."""
    try:
        with path(environment).open(encoding="utf-8", errors="replace") as file:
            lines = file.read(LIMIT).splitlines()
    except OSError:
        return []
    return list(filter(None, map(_entry, lines)))


def made(environment: Path) -> list[dict[str, object]]:
    """What was made outside the folder and not taken back yet: the entries of the event made, in their order.

    A deed that was noted again has what its last note says of it.
    """
    left: dict[str, dict[str, object]] = {}
    for entry in entries(environment):
        deed = str(entry.get("deed"))
        if entry.get("event") == "made":
            left[deed] = {**left.get(deed, {}), **entry}
        elif entry.get("event") == "undone":
            left.pop(deed, None)
    return list(left.values())


def split_deed(entry: Entry) -> tuple[str, str]:
    """What kind of thing was made, and which: ("folder", "/a/b")."""
    kind, _, which = str(entry.get("deed")).partition(" ")
    return kind, which


def _entry(line: str) -> dict[str, object] | None:
    """A line that was cut off is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
