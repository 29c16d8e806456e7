"""ixsmi in the layout of CoreX 4.x.  Its -q and -x are not simulated: no public output shows their raw layout."""

from __future__ import annotations

from envcheck.core.simulate.columns import columns
from envcheck.core.simulate.machine import Chip, Devices, Driver, Machine
from envcheck.core.simulate.reply import Program, Reply
from envcheck.core.simulate.topology import format_matrix

_FULL = "+" + "-" * 77 + "+"
_CELLS = "+" + "+".join("-" * width for width in (31, 22, 22)) + "+"
_USAGE = Reply("ERROR: Option is not recognized. Please run 'ixsmi -h' for help.\n", status=1)
# No public output shows what ixsmi says without a device; these are nvidia-smi's words, whose manner it follows.
_EMPTY = Reply("No devices were found\n", status=6)


def program(machine: Machine) -> Program:
    assert machine.driver is not None and machine.devices is not None
    make, driver = machine.devices, machine.driver
    replies = {"": _EMPTY, "-L": _EMPTY, "topo -m": _EMPTY}
    if machine.listed:
        lines = [f"GPU {n}: {make.name} (UUID: {chip.uuid})\n" for n, chip in enumerate(machine.listed)]
        replies = {
            "": Reply(_table(machine, make, driver)),
            "-L": Reply("".join(lines)),
            "topo -m": Reply(format_matrix(machine)),
        }
    return Program("ixsmi", replies, (("", _USAGE),), listings=("",), columns=columns(machine, _renamed(driver)))


def _renamed(driver: Driver) -> dict[str, str]:
    """CoreX 4 asks for gpu.power.draw where CoreX 3 asked for power.draw, as scripts for both do."""
    newer = int(driver.tool.split(".")[0]) >= 4
    return {"power.draw": "gpu.power.draw", "power.limit": "gpu.power.limit"} if newer else {}


def _table(machine: Machine, make: Devices, driver: Driver) -> str:
    banner = f"  IX-ML: {driver.tool:<11} Driver Version: {driver.version:<11} CUDA Version: {driver.cuda or 'N/A'}"
    lines = [
        *("Timestamp    Thu Jul 10 09:00:00 2025", _FULL, f"|{banner:<77.77}|"),
        "|" + "+".join("-" * width for width in (31, 22, 22)) + "|",
        "| GPU  Name                     | Bus-Id               | Clock-SM  Clock-Mem  |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|      Memory-Usage    | GPU-Util  Compute M. |",
        "|" + "+".join("=" * width for width in (31, 22, 22)) + "|",
    ]
    for n, chip in enumerate(machine.listed):
        lines += [*_rows(n, chip, make), _CELLS]
    title = " Processes:" + " " * 55 + "GPU Memory "
    lines += [
        "",
        _FULL,
        f"|{title:<77}|",
        f"|{'  GPU        PID      Process name':<66}Usage(MiB) |",
        "|" + "=" * 77 + "|",
    ]
    return "\n".join([*lines, *_processes(machine), _FULL]) + "\n"


def _rows(n: int, chip: Chip, make: Devices) -> tuple[str, str]:
    """| 1    Iluvatar BI-V150         | 00000000:16:00.0     | 1500MHz   1600MHz    |
    | N/A  34C   P0    103W / 350W  | 64MiB / 32768MiB     | 0%        Default    |"""
    power = "N/A / N/A" if chip.power_w is None else f"{chip.power_w:.0f}W / {make.power_limit_w}W"
    fan = "N/A" if make.fan_percent is None else f"{make.fan_percent}%"
    memory = f"{chip.memory_used_mib}MiB / {make.memory_mib}MiB"
    clocks = f"{f'{make.clock_sm_mhz}MHz':<9} {f'{make.clock_memory_mhz}MHz':<10}"
    busy = f"{97 if chip.holders else 0}%"
    heat = f"{fan:<4} {f'{chip.temperature_c}C':<5} {make.perf_state:<5} {power:<13}"
    return (
        f"| {n:<4} {make.name:<25.25}| {chip.bus_id:<21}| {clocks} |",
        f"| {heat}| {memory:<21}| {busy:<9} {'Default':<10} |",
    )


def _processes(machine: Machine) -> list[str]:
    rows = [
        f"|{n:>5}{held.pid:>11}      {held.name:<43}{f'{held.memory_mib}':>10}  |"
        for n, chip in enumerate(machine.listed)
        for held in chip.holders
    ]
    return rows or [f"|{'  No running processes found':<77}|"]
