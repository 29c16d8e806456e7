"""What envcheck leaves in an environment that it works on: .envcheck/state.json, replaced whole or not at all.

The mark says whose the folder is, which step was begun, and what was proved; a step that was begun and not ended is
how the next run learns that this one was cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

SCHEMA = 1
LIMIT = 1 << 20  # characters; ours hold a few thousand


def folder_of(environment: Path) -> Path:
    """Where everything of ours stands in an environment: mark, journal, lock, logs, pip's temporary files."""
    return environment / ".envcheck"


@dataclass(frozen=True)
class Mark:
    """`made`: the folder is ours to remove; `doing`: a step begun; `proven`: every version at the last good proof."""

    made: bool
    recipe: str
    doing: str = ""
    digest: str = ""
    proven: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()


def load(environment: Path) -> Mark | None:
    """The mark, or None where there is none or none that can be understood (such a folder is not ours)."""
    try:
        with (folder_of(environment) / "state.json").open(encoding="utf-8") as file:
            said = json.loads(file.read(LIMIT))
        if said["schema"] != SCHEMA or not isinstance(said["made"], bool):
            return None
        return Mark(
            made=said["made"],
            recipe=str(said["recipe"]),
            doing=str(said["doing"]),
            digest=str(said["digest"]),
            proven={str(k): str(v) for k, v in said["proven"].items()},
            added=tuple(str(name) for name in said["added"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def save(environment: Path, mark: Mark) -> None:
    """Under a temporary name, to the disk, then renamed: a cut leaves the old mark or the new one."""
    folder = folder_of(environment)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "state.json.new"
    try:
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, **asdict(mark)}, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / "state.json")
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
