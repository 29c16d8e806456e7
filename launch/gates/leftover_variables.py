"""Gate for variables that another job left in the environment."""

from __future__ import annotations

from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Status, fix
from envcheck.vendors import VENDORS
from launch.gates.context import GateContext


def check_leftover_variables(s: GateContext) -> Finding:
    """Always; reports variables of another job, which are removed from the training's environment."""
    cards = VENDORS[s.device].visible_env
    obeyed = (cards,) if s.choice else ()  # the job's cards were chosen from the list
    # The job sets the others itself.
    stale = [name for name in s.stale if name not in s.command.environment and name not in obeyed]
    if not stale:
        return Finding("gate.variables", Status.OK, _("no variables left over from another job"))
    seen = _("removed from the training's environment: {stale}", stale=join(", ", stale))
    if s.command.keeps_environment:
        seen = _("set in your environment, and passed on: {names}", names=join(", ", stale))
        words = _("Launchers read them. Unset those that this job does not need.")
        return Finding("gate.variables", Status.WARN, seen, fix(words, f"unset -v {' '.join(stale)}"))
    words = _("Another job or platform set them. Use the options --rank, --master and --nnodes instead.")
    if cards in stale:
        hint = _("See gate.visible for the device list.")
        words = _("{remedy} {addition}", remedy=words, addition=hint) if len(stale) > 1 else hint
    return Finding("gate.variables", Status.WARN, seen, fix(words, f"unset -v {' '.join(stale)}"))
