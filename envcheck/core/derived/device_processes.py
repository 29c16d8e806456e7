"""The processes that a vendor's tool lists on its devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envcheck.core.facts import VendorFacts
from envcheck.core.model import Device, Process

SHOWN = 4  # processes in a sentence


def is_on(process: Process, device: Device) -> bool:
    """`device` of a process is the NPU id, else the index; a chip that one side does not name is no difference."""
    same = process.device is not None and process.device == (device.index if device.npu is None else device.npu)
    return same and (process.chip is None or device.chip is None or process.chip == device.chip)


def find_processes(v: VendorFacts, devices: Iterable[Device]) -> list[Process]:
    """The listed processes that are on any of these devices."""
    some = list(devices)
    return [p for p in v.processes or () if any(is_on(p, d) for d in some)]


def inspect_commands(v: VendorFacts, some: Sequence[Process]) -> tuple[str, ...]:
    """The command that tells more of these processes; of none, who has the nodes open."""
    pids = ",".join(str(p.pid) for p in some[:SHOWN] if p.pid is not None)
    return (f"ps -o pid,user,etime,cmd -p {pids}",) if pids else (f"fuser -v {v.vendor.node_pattern}",)


def format_processes(some: Sequence[Process]) -> str:
    """Name, id and memory of each."""

    def one(p: Process) -> str:
        size = "" if p.memory_mib is None else f", {p.memory_mib} MiB"
        return f"{p.name or 'a process'} (pid {'?' if p.pid is None else p.pid}{size})"

    return ", ".join(one(p) for p in some[:SHOWN]) + format_rest(some)


def format_rest(some: Sequence[object]) -> str:
    """How many more there are than are shown."""
    return f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
