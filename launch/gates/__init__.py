"""What must be so before a training starts.  Each gate is a plain function of the situation; FAIL is a closed gate.

To add one: a function in its area's file and its line in GATES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from envcheck.core.model import Finding, Status
from launch.gates import cards, files, job_requirements, network, place, steps, variables, waive
from launch.gates.context import GateContext
from launch.gates.waive import GateWaiver

Gate = Callable[[GateContext], Finding]

GATES: dict[str, Gate] = {
    "environment": job_requirements.environment,
    "lock": place.locked,
    "doctor": place.doctor,
    "devices": job_requirements.devices,
    "world": cards.world,
    "visible": cards.visible_list,
    "topology": cards.topology,
    "mixed": cards.mixed,
    "degrees": job_requirements.degrees,
    "steps": steps.steps,
    "bubble": steps.bubble,
    "memory": job_requirements.memory,
    "host": job_requirements.host_memory,
    "shm": job_requirements.shm,
    "disk": job_requirements.disk,
    "folder": place.writable,
    "alone": place.alone,
    "data": files.data,
    "mix": files.mix,
    "model": files.model,
    "master": network.master,
    "port": network.port,
    "ports": network.ports,
    "name": network.own_name,
    "variables": variables.left_overs,
    "command": place.complete,
    "container": place.place,
}


def walk(situation: GateContext) -> tuple[Finding, ...]:
    """All gates, in the order of the table: a person mends everything at once, not one a try."""
    return tuple(gate(situation) for gate in GATES.values())


def opened(
    situation: GateContext, waivers: Sequence[GateWaiver]
) -> tuple[GateContext, tuple[Finding, ...], tuple[str, ...]]:
    """The gates with what a person waived, and for the record what that opened."""
    eased = replace(situation, doctor=waive.checks(situation.doctor, waivers))
    found = walk(eased)
    return eased, waive.gates(found, waivers), waive.opened((*situation.doctor, *found), waivers)


def closed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(f for f in findings if f.status is Status.FAIL)
