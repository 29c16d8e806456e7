"""Which checks of doctor find a fault of the node itself, for which a site may drain it: not one of a job or a user."""

from __future__ import annotations

CHECKED_AREAS = ("driver", "devices", "links", "own")
# These depend on the job, or are normal while another job uses the node.
JOB_CHECKS = ("devices.visible", "devices.remapped", "devices.order")
IN_USE_CHECKS = ("devices.processes", "devices.memory", "devices.utilization", "devices.shared", "devices.open_nodes")


def is_node_fault(check: str) -> bool:
    """Whether a failure of this check is a fault of the node, whatever job runs there."""
    return check.partition(".")[0] in CHECKED_AREAS and check not in (*JOB_CHECKS, *IN_USE_CHECKS)
