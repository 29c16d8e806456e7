"""What an earlier job left in the environment."""

from __future__ import annotations

from envcheck.model import Finding, Remedy, Severity
from launch.situation import Situation


def left_overs(s: Situation) -> Finding:
    """Told, never closed: variables of an earlier job are left out of the training's environment, and named."""
    if not s.stale:
        return Finding("gate.variables", Severity.OK, "no left-over job variables")
    seen = f"left out of the training's environment: {', '.join(s.stale)}"
    words = "Another job or platform set them; those that are meant are options here: --rank, --master, --nnodes."
    return Finding("gate.variables", Severity.WARN, seen, Remedy(words, (f"unset -v {' '.join(s.stale)}",)))
