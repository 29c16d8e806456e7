"""Why a device is occupied: one check tells of each listed process, and the device's load follows from that.

One that does not exist is told by devices.ghosts, one of an ended job by devices.leftovers, one that takes a job's
room by job.memory, any other by devices.processes.  Pure; what cannot be told here has no cause, and is then told by
whoever sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from typing import TypeVar

from envcheck.core.derived.device_processes import SHOWN, format_rest, is_on
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Device, Process
from envcheck.job.requirements import device_memory
from probes.host import schemas
from probes.host.schemas import Holding

GHOSTS, LEFTOVERS, PROCESSES = "devices.ghosts", "devices.leftovers", "devices.processes"
ROOM = "job.memory"  # of a job that they leave no room: worse than that they are there
NOBODY = ""  # no check tells it
CAUSES = (NOBODY, GHOSTS, LEFTOVERS, ROOM, PROCESSES)  # of several on one device the first that is somebody counts
STUCK = {"Z": "ended, but nobody has collected it", "D": "stuck in the driver", "T": "stopped"}
T = TypeVar("T")


def holders(facts: Facts, v: VendorFacts) -> list[Holding]:
    """Processes that have a node of this vendor's open, monitors aside."""
    seen = schemas.processes(facts)
    pattern = v.vendor.node_pattern
    held = [h for h in (seen.holding if seen else ()) if any(fnmatch(path, pattern) for path in h.nodes)]
    return [h for h in held if h.name not in v.vendor.monitors]


def ghosts(facts: Facts, v: VendorFacts) -> list[int]:
    """Listed processes that do not exist; none where the tool's numbers are not those of this namespace."""
    seen = schemas.processes(facts)
    if seen is None or not seen.pids or not _same_numbers(facts):
        return []
    return list(dict.fromkeys(p.pid for p in v.processes or () if p.pid is not None and p.pid not in seen.pids))


def stuck(facts: Facts, v: VendorFacts) -> list[Holding]:
    return [h for h in holders(facts, v) if h.state in STUCK]


def orphans(facts: Facts, v: VendorFacts) -> list[Holding]:
    """The caller's own whose launcher is gone."""
    me = schemas.caller(facts)
    mine = [h for h in holders(facts, v) if me is not None and h.uid == me.uid]
    return [h for h in mine if h.parent == 1 and h.state not in STUCK]


def left_over(facts: Facts, v: VendorFacts) -> set[int]:
    """The processes that devices.leftovers tells of, by their ids in this namespace."""
    return {h.pid for h in (*stuck(facts, v), *orphans(facts, v))} if schemas.caller(facts) else set()


def cause(facts: Facts, v: VendorFacts) -> Callable[[Process], str]:
    """The check that tells of a listed process."""
    lost, left = set(ghosts(facts, v)), left_over(facts, v) if _same_numbers(facts) else set()
    whole = not (v.document and v.document.truncated)  # else devices.processes tells only that much
    full = device_memory.find_crowded(facts, v)

    def of(process: Process) -> str:
        if process.pid in lost:
            return GHOSTS
        if process.pid in left:
            return LEFTOVERS
        return ROOM if any(is_on(process, d) for d in full) else PROCESSES if whole else NOBODY

    return of


def load_cause(facts: Facts, v: VendorFacts) -> Callable[[Device], str]:
    """The check that tells why a device is at work."""
    told = [(process, of(process)) for of in [cause(facts, v)] for process in v.processes or ()]

    def of_device(device: Device) -> str:
        here = {name for process, name in told if is_on(process, device)}
        return next((name for name in CAUSES[1:] if name in here), NOBODY)

    return of_device


def memory_cause(facts: Facts, v: VendorFacts) -> Callable[[Device], str]:
    """As `load_cause`, where the processes' own figures account for what is used, the driver's share aside."""
    why = load_cause(facts, v)

    def of_device(device: Device) -> str:
        sizes = [process.memory_mib for process in v.processes or () if is_on(process, device)]
        beyond = (device.memory_used_mib or 0) - sum(size or 0 for size in sizes)
        return why(device) if None in sizes or beyond <= v.vendor.idle_memory_mib else NOBODY

    return of_device


def by_cause(things: Iterable[T], why: Callable[[T], str]) -> Iterator[tuple[str, list[T]]]:
    """The things of each cause, those that nobody tells first."""
    found: dict[str, list[T]] = {name: [] for name in CAUSES}
    for thing in things:
        found[why(thing)].append(thing)
    return ((name, some) for name, some in found.items() if some)


def held_by(some: list[Holding]) -> str:
    """Name, id, container and age of each."""

    def one(h: Holding) -> str:
        where = f", container {h.container}" if h.container else ""
        age = f", for {h.age_s // 60} min" if h.age_s is not None else ""
        return f"{h.name or 'a process'} (pid {h.pid}{where}{age})"

    return ", ".join(one(h) for h in some[:SHOWN]) + format_rest(some)


def _same_numbers(facts: Facts) -> bool:
    """Whether process ids here are the host's, which the vendors' tools list."""
    me = schemas.caller(facts)
    return me is not None and me.host_pids is True
