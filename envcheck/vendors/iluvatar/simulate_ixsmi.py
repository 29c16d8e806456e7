"""ixsmi in the format of CoreX 4.x.

There is no public sample of -q, only of some of its keys: the layout is that of nvidia-smi, which ixsmi imitates.
-x is not simulated.
"""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.query_columns import build_query_columns
from envcheck.core.simulate.query_text import QueryText, Section, make_query_replies
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.topology import format_matrix

_FULL = "+" + "-" * 77 + "+"
_CELLS = "+" + "+".join("-" * width for width in (31, 22, 22)) + "+"
_USAGE = ProgramReply("ERROR: Option is not recognized. Please run 'ixsmi -h' for help.\n", status=1)
_HELP = ProgramReply("This simulated ixsmi supports: -h, -L, -q, -q -i ID, --query-gpu=FIELDS --format=csv, topo -m\n")
# There is no public sample of ixsmi without a device; this is nvidia-smi's message, which ixsmi imitates.
_EMPTY = ProgramReply("No devices were found\n", status=6)


def make_ixsmi(machine: SimulatedSystem) -> SimulatedProgram:
    """Return the executable with its answers."""
    assert machine.driver is not None and machine.devices is not None
    make, driver = machine.devices, machine.driver
    replies = {"": _EMPTY, "-L": _EMPTY, "topo -m": _EMPTY}
    if machine.listed_chips:
        lines = [f"GPU {n}: {make.name} (UUID: {chip.uuid})\n" for n, chip in enumerate(machine.listed_chips)]
        replies = {
            "": ProgramReply(_render_table(machine, make, driver)),
            "-L": ProgramReply("".join(lines)),
            "topo -m": ProgramReply(format_matrix(machine)),
            **make_query_replies(_describe_query(machine, make, driver)),
        }
    replies["-h"] = _HELP
    return SimulatedProgram(
        "ixsmi", replies, (("", _USAGE),), listings=("",), columns=build_query_columns(machine, _renamed_fields(driver))
    )


def _describe_query(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver) -> QueryText:
    head = [
        ("Driver Version", driver.version),
        ("IX-ML", driver.tool_version),
        ("CUDA Version", driver.cuda or "N/A"),
        ("", ""),
        ("Attached GPUs", str(len(machine.listed_chips))),
    ]
    devices = [(f"GPU {chip.bus_id}", _list_sections(n, chip, make)) for n, chip in enumerate(machine.listed_chips)]
    return QueryText("IXSMI LOG", head, devices)


def _list_sections(n: int, chip: SimulatedChip, make: SimulatedDevices) -> list[Section]:
    sizes = (("Total", make.memory_mib), ("Used", chip.memory_used_mib))
    power = "N/A" if chip.power_w is None else f"{chip.power_w:.2f} W"
    return [
        ("", [("Product Name", make.name), ("Serial Number", chip.serial), ("GPU UUID", chip.uuid)]),
        ("", [("Minor Number", str(n)), ("PCI", [("Bus Id", chip.bus_id)]), ("Compute Mode", "Default")]),
        ("", [("FB Memory Usage", [(key, f"{mib} MiB") for key, mib in sizes])]),
        ("", [("Utilization", [("Gpu", f"{97 if chip.holders else 0} %")])]),
        ("", [("Ecc Mode", [("Current", "Enabled" if make.ecc else "Disabled")])]),
        ("", [("Temperature", [("GPU Current Temp", f"{chip.temperature_c} C")])]),
        ("", [("Power Readings", [("Power Draw", power)])]),
    ]


def _renamed_fields(driver: SimulatedDriver) -> dict[str, str]:
    """Return renamed fields: CoreX 4 uses gpu.power.draw for CoreX 3's power.draw."""
    newer = int(driver.tool_version.split(".")[0]) >= 4
    return {"power.draw": "gpu.power.draw", "power.limit": "gpu.power.limit"} if newer else {}


def _render_table(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver) -> str:
    banner = (
        f"  IX-ML: {driver.tool_version:<11} Driver Version: {driver.version:<11} CUDA Version: {driver.cuda or 'N/A'}"
    )
    lines = [
        *("Timestamp    Thu Jul 10 09:00:00 2025", _FULL, f"|{banner:<77.77}|"),
        "|" + "+".join("-" * width for width in (31, 22, 22)) + "|",
        "| GPU  Name                     | Bus-Id               | Clock-SM  Clock-Mem  |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|      Memory-Usage    | GPU-Util  Compute M. |",
        "|" + "+".join("=" * width for width in (31, 22, 22)) + "|",
    ]
    for n, chip in enumerate(machine.listed_chips):
        lines += [*_device_rows(n, chip, make), _CELLS]
    title = " Processes:" + " " * 55 + "GPU Memory "
    lines += [
        "",
        _FULL,
        f"|{title:<77}|",
        f"|{'  GPU        PID      Process name':<66}Usage(MiB) |",
        "|" + "=" * 77 + "|",
    ]
    return "\n".join([*lines, *_process_rows(machine), _FULL]) + "\n"


def _device_rows(n: int, chip: SimulatedChip, make: SimulatedDevices) -> tuple[str, str]:
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


def _process_rows(machine: SimulatedSystem) -> list[str]:
    rows = [
        f"|{n:>5}{held.pid:>11}      {held.name:<43}{f'{held.memory_mib}':>10}  |"
        for n, chip in enumerate(machine.listed_chips)
        for held in chip.holders
    ]
    return rows or [f"|{'  No running processes found':<77}|"]
