"""`train --hosts --restart N`: which host a run failed on, and what the hosts continue from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from envcheck.core.messages import Message, _
from envcheck.report.summary import safe
from launch import restart_run
from launch.backends.ssh.node_outcome import UNREACHED, NodeOutcome
from launch.run import states


@dataclass(frozen=True)
class HostFault:
    """The fault of the infrastructure that ended a run, and the host that had it."""

    host: str
    seen: Message


def find_host_fault(first: NodeOutcome | None) -> HostFault | None:
    """Return the fault of the host that failed first: it was lost, or its record names one; None for any other end."""
    if first is None:
        return None
    if first.state in (states.LOST, UNREACHED):
        return HostFault(first.host, _("connection lost"))
    fault = restart_run.find_recorded_fault(first.record or {})
    return HostFault(first.host, fault) if fault else None


def choose_resume(hosts: Iterable[str], nodes: Sequence[NodeOutcome]) -> dict[str, str]:
    """Return the run that each host continues: its own if all have the same checkpoint, else that of the first host
    that has one, which the others reach on a shared file system; {} without a checkpoint.
    """
    saved = {node.host: name for node in nodes if (name := _find_checkpoint(node))}
    folders = {node.host: node.folder for node in nodes if node.host in saved}
    wanted = tuple(hosts)
    if not saved:
        return {}
    if all(host in saved for host in wanted) and len({saved[host] for host in wanted}) == 1:
        return {host: folders[host] for host in wanted}
    return dict.fromkeys(wanted, next(iter(folders.values())))


def _find_checkpoint(node: NodeOutcome) -> str:
    """The name of the newest checkpoint in the record of a host, "" without one."""
    known = (node.record or {}).get("checkpoints")
    paths = [path for path in known if isinstance(path, str)] if isinstance(known, list) else []
    return safe(PurePosixPath(paths[-1]).name) if paths and node.folder else ""
