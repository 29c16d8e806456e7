"""Why a device is occupied: one check reports each listed process, and the device's load is a consequence of it.

devices.ghosts reports processes that do not exist, devices.leftovers those of an ended job, job.memory those that take
memory that a job needs, devices.processes all others.  The caller reports what has no cause here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from typing import TypeVar

from envcheck.core.derived.device_processes import is_on_device, join_first
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.messages import Message, _
from envcheck.core.model import Device, Process
from envcheck.job.requirements import device_memory
from probes.host import schemas
from probes.host.schemas import NodeHolder

GHOSTS, LEFTOVERS, PROCESSES = "devices.ghosts", "devices.leftovers", "devices.processes"
ROOM = "job.memory"  # of a job that lacks the memory: worse than a process alone
NOBODY = ""  # no check reports it
CAUSES = (NOBODY, GHOSTS, LEFTOVERS, ROOM, PROCESSES)  # of several on one device, the first with a cause counts
STUCK = {
    "Z": _("zombie: exited, but its parent has not reaped it"),
    "D": _("stuck in the driver (state D)"),
    "T": "stopped",
}
T = TypeVar("T")


def find_node_holders(facts: Facts, v: VendorFacts) -> list[NodeHolder]:
    """Return the processes that have a device node of this vendor open, except monitoring agents."""
    seen = schemas.read_processes(facts)
    pattern = v.vendor.node_pattern
    held = [h for h in (seen.holding if seen else ()) if any(fnmatch(path, pattern) for path in h.nodes)]
    return [h for h in held if h.name not in v.vendor.monitors]


def find_ghost_pids(facts: Facts, v: VendorFacts) -> list[int]:
    """Return listed processes that do not exist; none if the tool's process IDs are not those of this namespace."""
    seen = schemas.read_processes(facts)
    if seen is None or not seen.pids or not _has_host_pids(facts):
        return []
    return list(dict.fromkeys(p.pid for p in v.processes or () if p.pid is not None and p.pid not in seen.pids))


def find_stuck_holders(facts: Facts, v: VendorFacts) -> list[NodeHolder]:
    """Return the processes with an open device node that are zombies or stuck in the driver."""
    return [h for h in find_node_holders(facts, v) if h.state in STUCK]


def find_orphaned_holders(facts: Facts, v: VendorFacts) -> list[NodeHolder]:
    """Return the user's own processes whose launcher has exited."""
    me = schemas.read_caller(facts)
    mine = [h for h in find_node_holders(facts, v) if me is not None and h.uid == me.uid]
    return [h for h in mine if (h.parent == 1 or h.run) and h.state not in STUCK]


def find_leftover_pids(facts: Facts, v: VendorFacts) -> set[int]:
    """Return the processes that devices.leftovers reports, by their IDs in this namespace."""
    return (
        {h.pid for h in (*find_stuck_holders(facts, v), *find_orphaned_holders(facts, v))}
        if schemas.read_caller(facts)
        else set()
    )


def make_process_explainer(facts: Facts, v: VendorFacts) -> Callable[[Process], str]:
    """Return a function: listed process → name of the check that reports it."""
    lost, left = set(find_ghost_pids(facts, v)), find_leftover_pids(facts, v) if _has_host_pids(facts) else set()
    whole = not (v.document and v.document.truncated)  # otherwise devices.processes reports only that
    full = device_memory.find_crowded(facts, v)

    def name_cause(process: Process) -> str:
        if process.pid in lost:
            return GHOSTS
        if process.pid in left:
            return LEFTOVERS
        return ROOM if any(is_on_device(process, d) for d in full) else PROCESSES if whole else NOBODY

    return name_cause


def make_load_explainer(facts: Facts, v: VendorFacts) -> Callable[[Device], str]:
    """Return a function: device → name of the check that reports why it is busy."""
    explain_process = make_process_explainer(facts, v)
    told = [(process, explain_process(process)) for process in v.processes or ()]

    def of_device(device: Device) -> str:
        here = {name for process, name in told if is_on_device(process, device)}
        return next((name for name in CAUSES[1:] if name in here), NOBODY)

    return of_device


def make_memory_explainer(facts: Facts, v: VendorFacts) -> Callable[[Device], str]:
    """As `make_load_explainer`, if the figures of the processes account for the memory in use beyond the driver's
    share.
    """
    why = make_load_explainer(facts, v)

    def of_device(device: Device) -> str:
        sizes = [process.memory_mib for process in v.processes or () if is_on_device(process, device)]
        beyond = (device.memory_used_mib or 0) - sum(size or 0 for size in sizes)
        return why(device) if None in sizes or beyond <= v.vendor.idle_memory_mib else NOBODY

    return of_device


def group_by_cause(things: Iterable[T], why: Callable[[T], str]) -> Iterator[tuple[str, list[T]]]:
    """Return the items of each cause, those without a cause first."""
    found: dict[str, list[T]] = {name: [] for name in CAUSES}
    for thing in things:
        found[why(thing)].append(thing)
    return ((name, some) for name, some in found.items() if some)


def format_holders(some: list[NodeHolder]) -> str:
    """Name, process ID, container and age of each process."""

    def describe(h: NodeHolder) -> Message:
        where = _(", container {container}", container=h.container) if h.container else ""
        age = _(", running for {minutes} min", minutes=h.age_s // 60) if h.age_s is not None else ""
        return _("{name} (pid {pid}{where}{age})", name=h.name or _("a process"), pid=h.pid, where=where, age=age)

    return join_first([describe(holder) for holder in some])


def _has_host_pids(facts: Facts) -> bool:
    """Whether process IDs here are those of the host, which the vendor tools list."""
    me = schemas.read_caller(facts)
    return me is not None and me.host_pids is True
