"""--query-gpu of nvidia-smi and ixsmi: header and values of each field; the simulated script selects and joins them."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedSystem
from envcheck.core.simulate.reply import QueryColumn

Value = Callable[[int, SimulatedChip, SimulatedDevices, SimulatedSystem], str]
NONE = "[N/A]"


def _format_optional(value: object, unit: str = "") -> str:
    return NONE if value is None else f"{value}{unit}"


# field → unit and value; the header has the unit too
FIELDS: dict[str, tuple[str, Value]] = {
    "index": ("", lambda n, chip, make, machine: str(n)),
    "name": ("", lambda n, chip, make, machine: make.name),
    "count": ("", lambda n, chip, make, machine: str(len(machine.listed_chips))),
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
    "fan.speed": (" %", lambda n, chip, make, machine: _format_optional(make.fan_percent)),
    "power.draw": (" W", lambda n, chip, make, machine: _format_watts(chip.power_w)),
    "power.limit": (" W", lambda n, chip, make, machine: _format_watts(_power_limit_w(chip, make))),
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
# Other names of a field; the tool prints the header of the first.
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_serial": "serial",
    "clocks.current.sm": "clocks.sm",
    "clocks.current.memory": "clocks.mem",
}
_HEADINGS = {"clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory"}


def build_query_columns(machine: SimulatedSystem, renamed: dict[str, str] | None = None) -> dict[str, QueryColumn]:
    """Return all fields that the tool supports; `renamed` has the tool's own names."""
    assert machine.devices is not None
    own = {(renamed or {}).get(field, field): field for field in FIELDS}
    asked = {**own, **ALIASES}
    return {
        name: _build_column(_HEADINGS.get(field, name if name in own else field), field, machine)
        for name, field in asked.items()
    }


def _build_column(heading: str, field: str, machine: SimulatedSystem) -> QueryColumn:
    assert machine.devices is not None
    unit, value = FIELDS[field]
    values = [value(n, chip, machine.devices, machine) for n, chip in enumerate(machine.listed_chips)]
    written = tuple(text if text == NONE else text + unit for text in values)
    return QueryColumn(heading + (f" [{unit.strip()}]" if unit else ""), written)


def _format_watts(watts: float | None) -> str:
    return NONE if watts is None else f"{watts:.2f}"


def _power_limit_w(chip: SimulatedChip, make: SimulatedDevices) -> float | None:
    return None if chip.power_w is None or not make.power_limit_w else float(make.power_limit_w)
