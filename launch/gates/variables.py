"""What an earlier job left in the environment."""

from __future__ import annotations

from envcheck.model import Finding, Severity
from launch.situation import Situation


def left_overs(s: Situation) -> Finding:
    """Variables of an earlier job: never a reason to stop, since they are left out, but said."""
    if not s.stale:
        return Finding("gate.variables", Severity.OK, "no left-over job variables")
    return Finding("gate.variables", Severity.OK, f"left out of the training's environment: {', '.join(s.stale)}")
