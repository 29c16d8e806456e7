"""The state of a run, from its record and its processes or backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envcheck.core.messages import mark
from launch.run.states import ACTIVE, ORPHANED, QUEUED

# All states of a run, for translation.
STATE_NAMES = (
    *(mark("starting"), mark("running"), mark("queued"), mark("orphaned"), mark("lost"), mark("refused")),
    mark("unknown"),
    *(mark("succeeded"), mark("failed"), mark("stopped"), mark("unstarted")),
)


@dataclass(frozen=True)
class Run:
    """A run; `pid` is that of its supervising envcheck, None if it has ended; `said` is the record."""

    folder: Path
    state: str
    pid: int | None = None
    said: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Name of the run folder."""
        return self.folder.name

    @property
    def is_running(self) -> bool:
        """Whether the run is active or queued."""
        return self.state in (*ACTIVE, QUEUED, ORPHANED)

    def get_text(self, key: str) -> str:
        """Return a text field of the record, "" if missing or of another type."""
        value = self.said.get(key)
        return value if isinstance(value, str) else ""
