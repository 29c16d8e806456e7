"""The journal of an environment: what was done, when and with what result.  One JSON object a line, synced to disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from envcheck.core.secrets import redact_text
from installers.state import state_file

Entry = Mapping[str, object]
LIMIT = 64 << 20  # characters; a line has a few hundred


def journal_path(environment: Path) -> Path:
    """Return the path of the environment's journal."""
    return state_file.state_folder(environment) / "journal.jsonl"


def write_entry(environment: Path, step: str, event: str, **more: object) -> None:
    """Append an entry; `event` is begun, done, failed, interrupted, made, undone or used."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    line = redact_text(json.dumps({"time": now, "step": step, "event": event, "pid": os.getpid(), **more}))
    with journal_path(environment).open("ab+") as file:
        file.write((_new_line(file) + line + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def _new_line(file: IO[bytes]) -> str:
    """Return a newline if the last line is incomplete, for example after a full disk; else ""."""
    if not file.seek(0, os.SEEK_END):
        return ""
    file.seek(-1, os.SEEK_END)
    return "" if file.read(1) == b"\n" else "\n"


def read_entries(environment: Path) -> list[dict[str, object]]:
    """Return all readable entries in order."""
    try:
        with journal_path(environment).open(encoding="utf-8", errors="replace") as file:
            lines = file.read(LIMIT).splitlines()
    except OSError:
        return []
    return list(filter(None, map(_parse_entry, lines)))


def list_made(environment: Path) -> list[dict[str, object]]:
    """Return the "made" entries of everything created outside the folder and not undone yet, in order.

    Several entries for the same deed are merged; later values win.
    """
    left: dict[str, dict[str, object]] = {}
    for entry in read_entries(environment):
        deed = str(entry.get("deed"))
        if entry.get("event") == "made":
            left[deed] = {**left.get(deed, {}), **entry}
        elif entry.get("event") == "undone":
            left.pop(deed, None)
    return list(left.values())


def split_deed(entry: Entry) -> tuple[str, str]:
    """Return kind and name of what an entry created: ("folder", "/a/b")."""
    kind, _, which = str(entry.get("deed")).partition(" ")
    return kind, which


def _parse_entry(line: str) -> dict[str, object] | None:
    """Return the entry in a line; None if the line is incomplete."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
