"""What an earlier job left in the environment."""

from __future__ import annotations

from envcheck.core.model import Finding, Remedy, Status
from envcheck.vendors import VENDORS
from launch.gates.context import GateContext


def left_overs(s: GateContext) -> Finding:
    """Told, never closed: variables of an earlier job are left out of the training's environment, and named."""
    stale = [name for name in s.stale if name not in s.command.environment]  # the others get the job's own value
    if not stale:
        return Finding("gate.variables", Status.OK, "no left-over job variables")
    seen = f"left out of the training's environment: {', '.join(stale)}"
    cards = VENDORS[s.device].visible_env
    words = "Another job or platform set them; those that are meant are options here: --rank, --master, --nnodes."
    if cards in stale:
        told = "Of the list of cards gate.visible tells."
        words = f"{words} {told}" if len(stale) > 1 else told
    return Finding("gate.variables", Status.WARN, seen, Remedy(words, (f"unset -v {' '.join(stale)}",)))
