"""The processes that a vendor's tool lists on its devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envcheck.core.facts import VendorFacts
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Device, Process

SHOWN = 4  # processes in one message


def is_on_device(process: Process, device: Device) -> bool:
    """Return whether the process is on the device.

    A process has the NPU id, else the index, as `device`; a chip that only one of the two names is not a difference.
    """
    same = process.device is not None and process.device == (device.index if device.npu is None else device.npu)
    return same and (process.chip is None or device.chip is None or process.chip == device.chip)


def find_processes(v: VendorFacts, devices: Iterable[Device]) -> list[Process]:
    """Return the listed processes that are on any of these devices."""
    some = list(devices)
    return [p for p in v.processes or () if any(is_on_device(p, d) for d in some)]


def process_inspect_commands(v: VendorFacts, some: Sequence[Process]) -> tuple[str, ...]:
    """Return the command that shows more about these processes; without process ids, who has the device nodes open."""
    pids = ",".join(str(p.pid) for p in some[:SHOWN] if p.pid is not None)
    return (f"ps -o pid,user,etime,cmd -p {pids}",) if pids else (f"fuser -v {v.vendor.node_pattern}",)


def format_processes(some: Sequence[Process]) -> Message:
    """Return the first SHOWN processes by name, id and memory, and how many more there are."""
    return join_first([describe_process(process) for process in some])


def describe_process(process: Process) -> Message:
    """Return the process by name, id and device memory."""
    name, pid = process.name or _("unknown process"), "?" if process.pid is None else process.pid
    if process.memory_mib is None:
        return _("{name} (pid {pid})", name=name, pid=pid)
    return _("{name} (pid {pid}, {memory_mib} MiB)", name=name, pid=pid, memory_mib=process.memory_mib)


def join_first(descriptions: Sequence[Message]) -> Message:
    """Return the first SHOWN descriptions as a list, and how many more there are."""
    shown = join(", ", descriptions[:SHOWN])
    more = len(descriptions) - SHOWN
    return _("{shown} and {more} more", shown=shown, more=more) if more > 0 else shown
