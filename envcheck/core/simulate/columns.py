"""--query-gpu of nvidia-smi and ixsmi: each field's heading and values; asking and joining is the script's work."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.core.simulate.machine import Chip, Devices, Machine
from envcheck.core.simulate.reply import Column

Value = Callable[[int, Chip, Devices, Machine], str]
NONE = "[N/A]"


def _or_none(value: object, unit: str = "") -> str:
    return NONE if value is None else f"{value}{unit}"


# field → unit and value; the unit stands in the heading too
FIELDS: dict[str, tuple[str, Value]] = {
    "index": ("", lambda n, chip, make, machine: str(n)),
    "name": ("", lambda n, chip, make, machine: make.name),
    "count": ("", lambda n, chip, make, machine: str(len(machine.listed))),
    "uuid": ("", lambda n, chip, make, machine: chip.uuid),
    "serial": ("", lambda n, chip, make, machine: chip.serial),
    "pci.bus_id": ("", lambda n, chip, make, machine: chip.bus_id),
    "driver_version": ("", lambda n, chip, make, machine: machine.driver.version if machine.driver else NONE),
    "pstate": ("", lambda n, chip, make, machine: make.perf_state),
    "compute_mode": ("", lambda n, chip, make, machine: "Default"),
    "temperature.gpu": ("", lambda n, chip, make, machine: str(chip.temperature_c)),
    "utilization.gpu": (" %", lambda n, chip, make, machine: NONE if machine.mig else str(97 if chip.holders else 0)),
    "utilization.memory": (" %", lambda n, chip, make, machine: NONE if machine.mig else "0"),
    "memory.total": (" MiB", lambda n, chip, make, machine: str(make.memory_mib)),
    "memory.used": (" MiB", lambda n, chip, make, machine: str(chip.memory_used_mib)),
    "memory.free": (" MiB", lambda n, chip, make, machine: str(make.memory_mib - chip.memory_used_mib)),
    "fan.speed": (" %", lambda n, chip, make, machine: _or_none(make.fan_percent)),
    "power.draw": (" W", lambda n, chip, make, machine: _watts(chip.power_w)),
    "power.limit": (" W", lambda n, chip, make, machine: _watts(_limit(chip, make))),
    "clocks.sm": (" MHz", lambda n, chip, make, machine: str(make.clock_sm_mhz)),
    "clocks.mem": (" MHz", lambda n, chip, make, machine: str(make.clock_memory_mhz)),
    "persistence_mode": ("", lambda n, chip, make, machine: "Enabled"),
    "ecc.mode.current": ("", lambda n, chip, make, machine: "Enabled" if make.ecc else "Disabled"),
    "ecc.errors.uncorrected.volatile.total": (
        "",
        lambda n, chip, make, machine: str(chip.ecc_uncorrected) if make.ecc else NONE,
    ),
    "mig.mode.current": ("", lambda n, chip, make, machine: "Enabled" if machine.mig else NONE),
    "compute_cap": ("", lambda n, chip, make, machine: (machine.driver and machine.driver.cuda_capability) or NONE),
}
# Other spellings of a field; the tool prints the heading of the first.
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_serial": "serial",
    "clocks.current.sm": "clocks.sm",
    "clocks.current.memory": "clocks.mem",
}
_HEADINGS = {"clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory"}


def columns(machine: Machine, renamed: dict[str, str] | None = None) -> dict[str, Column]:
    """Every field that the tool knows; `renamed` gives a field of ours the tool's own name instead."""
    assert machine.devices is not None
    own = {(renamed or {}).get(field, field): field for field in FIELDS}
    asked = {**own, **ALIASES}
    return {
        name: _column(_HEADINGS.get(field, name if name in own else field), field, machine)
        for name, field in asked.items()
    }


def _column(heading: str, field: str, machine: Machine) -> Column:
    assert machine.devices is not None
    unit, value = FIELDS[field]
    values = [value(n, chip, machine.devices, machine) for n, chip in enumerate(machine.listed)]
    written = tuple(text if text == NONE else text + unit for text in values)
    return Column(heading + (f" [{unit.strip()}]" if unit else ""), written)


def _watts(watts: float | None) -> str:
    return NONE if watts is None else f"{watts:.2f}"


def _limit(chip: Chip, make: Devices) -> float | None:
    return None if chip.power_w is None or not make.power_limit_w else float(make.power_limit_w)
