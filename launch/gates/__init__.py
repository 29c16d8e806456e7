"""What must be so before a training starts.  Each gate is a plain function of the situation; FAIL is a closed gate.

To add one: a function in its area's file and its line in GATES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envcheck.model import Finding, Severity
from launch.gates import cards, files, memory, network, place, variables
from launch.situation import Situation

Gate = Callable[[Situation], Finding]

GATES: dict[str, Gate] = {
    "environment": place.environment,
    "doctor": place.doctor,
    "devices": cards.devices,
    "memory": memory.memory,
    "disk": files.disk,
    "folder": place.writable,
    "alone": place.alone,
    "data": files.data,
    "port": network.port,
    "name": network.own_name,
    "variables": variables.left_overs,
    "command": place.complete,
    "container": place.place,
}


def walk(situation: Situation) -> tuple[Finding, ...]:
    """All gates, in the order of the table: a person mends everything at once, not one a try."""
    return tuple(gate(situation) for gate in GATES.values())


def closed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(f for f in findings if f.severity is Severity.FAIL)
