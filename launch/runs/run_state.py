"""A run as its record and its processes, or its backend, show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUEUED = "queued"  # at a scheduler, which has not started it yet
# The record says "running", and its envcheck is gone: killed, or the machine went down.
ORPHANED = "orphaned"  # its processes live
LOST = "lost"  # nothing lives


@dataclass(frozen=True)
class Run:
    """`pid` is the envcheck that watches it, while it is there; `said` the whole record."""

    folder: Path
    state: str
    pid: int | None = None
    said: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def running(self) -> bool:
        return self.state in ("running", QUEUED, ORPHANED)

    def text(self, key: str) -> str:
        value = self.said.get(key)
        return value if isinstance(value, str) else ""
