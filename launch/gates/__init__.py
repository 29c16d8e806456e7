"""The preflight checks ("gates") of `envcheck train`: pure functions of a GateContext; FAIL prevents the start.

To add one: a function in the module of its area and a line in GATES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from envcheck.core.model import Finding, Status
from launch.gates import (
    device_selection,
    endpoints,
    input_files,
    job_requirements,
    leftover_variables,
    run_location,
    training_steps,
    waive,
)
from launch.gates.context import GateContext
from launch.gates.waive import GateWaiver

Gate = Callable[[GateContext], Finding]

GATES: dict[str, Gate] = {
    "environment": job_requirements.check_environment,
    "lint": job_requirements.check_script,
    "lock": run_location.check_lockfile,
    "doctor": run_location.check_doctor,
    "devices": job_requirements.check_devices,
    "world": device_selection.check_world_size,
    "visible": device_selection.check_visible_list,
    "topology": device_selection.check_topology,
    "mixed": device_selection.check_mixed_vendors,
    "degrees": job_requirements.check_degrees,
    "steps": training_steps.check_steps,
    "bubble": training_steps.check_pipeline_bubble,
    "memory": job_requirements.check_memory,
    "host": job_requirements.check_host_memory,
    "shm": job_requirements.check_shared_memory,
    "disk": job_requirements.check_disk,
    "folder": run_location.check_runs_writable,
    "alone": run_location.check_folder_unused,
    "data": input_files.check_data,
    "mix": input_files.check_mix_probabilities,
    "model": input_files.check_model,
    "checkpoint": input_files.check_resumed_checkpoint,
    "weights": input_files.check_weight_values,
    "master": endpoints.check_master_address,
    "port": endpoints.check_launcher_port,
    "ports": endpoints.check_collective_ports,
    "name": endpoints.check_own_name,
    "variables": leftover_variables.check_leftover_variables,
    "command": job_requirements.check_command_complete,
    "container": run_location.check_container,
}


def evaluate_gates(situation: GateContext) -> tuple[Finding, ...]:
    """Return the findings of all gates in the order of GATES, so that all problems are reported at once."""
    return tuple(gate(situation) for gate in GATES.values())


def apply_waivers(
    situation: GateContext, waivers: Sequence[GateWaiver]
) -> tuple[GateContext, tuple[Finding, ...], tuple[str, ...]]:
    """Evaluate the gates with waivers.

    Returns the context with waived checks, the findings, and the waivers that had an effect (for the record).
    """
    eased = replace(situation, doctor=waive.waive_checks(situation.doctor, waivers))
    found = evaluate_gates(eased)
    return eased, waive.waive_gates(found, waivers), waive.list_effective_waivers((*situation.doctor, *found), waivers)


def select_closed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the failed findings."""
    return tuple(f for f in findings if f.status is Status.FAIL)


def select_preventing(findings: Iterable[Finding], fail_on_unknown: bool) -> tuple[Finding, ...]:
    """Return the findings that prevent the start: the failed ones, else with --fail-on-unknown the unknown ones."""
    found = tuple(findings)
    unknown = tuple(f for f in found if f.status is Status.UNKNOWN) if fail_on_unknown else ()
    return select_closed(found) or unknown
