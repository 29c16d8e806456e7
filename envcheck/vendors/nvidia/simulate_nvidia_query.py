"""nvidia-smi -q as text: the part that commands of findings show.  The keys are wider since 560."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.query_text import Pairs, QueryText, Section

TYPES = ("MEMORY", "UTILIZATION", "ECC", "TEMPERATURE", "POWER", "CLOCK", "ROW_REMAPPER", "ECC,ROW_REMAPPER")
_WIDTHS = (42, 55)


def describe_query(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver, stamp: str) -> QueryText:
    """Return the text of all GPUs with its sections by type."""
    newer = int(driver.version.split(".")[0]) >= 560
    head = [
        ("Timestamp", stamp),
        ("Driver Version", driver.version),
        ("CUDA Version", driver.cuda),
        ("", ""),
        ("Attached GPUs", str(len(machine.listed_chips))),
    ]
    devices = [
        (f"GPU {chip.bus_id}", _list_sections(chip, make, bool(machine.mig), newer)) for chip in machine.listed_chips
    ]
    return QueryText("NVSMI LOG", head, devices, _WIDTHS[newer])


def _list_sections(chip: SimulatedChip, make: SimulatedDevices, mig: bool, newer: bool) -> list[Section]:
    free = make.memory_mib - chip.memory_used_mib
    sizes = (("Total", make.memory_mib), ("Used", chip.memory_used_mib), ("Free", free))
    state = "Enabled" if make.ecc else "Disabled"
    busy = "N/A" if mig else f"{97 if chip.holders else 0} %"
    clocks = (("Graphics", make.clock_sm_mhz), ("SM", make.clock_sm_mhz), ("Memory", make.clock_memory_mhz))
    return [
        ("", _identity_pairs(chip, make, mig)),
        ("MEMORY", [("FB Memory Usage", [(key, f"{mib} MiB") for key, mib in sizes])]),
        ("UTILIZATION", [("Utilization", [("Gpu" if not newer else "GPU", busy)])]),
        ("ECC", [("ECC Mode", [("Current", state), ("Pending", state)])]),
        ("ECC", [("ECC Errors", [(when, _ecc_pairs(chip, make)) for when in ("Volatile", "Aggregate")])]),
        ("ROW_REMAPPER", [("Remapped Rows", _row_pairs() if make.ecc else "N/A")]),
        ("TEMPERATURE", [("Temperature", [("GPU Current Temp", f"{chip.temperature_c} C")])]),
        ("POWER", [("GPU Power Readings", _power_pairs(chip, make, newer))]),
        ("CLOCK", [("Clocks", [(key, f"{mhz} MHz") for key, mhz in clocks])]),
    ]


def _identity_pairs(chip: SimulatedChip, make: SimulatedDevices, mig: bool) -> Pairs:
    state = "Enabled" if mig else "Disabled" if make.ecc else "N/A"
    return [
        ("Product Name", make.name),
        ("Product Brand", make.brand or "NVIDIA"),
        ("Persistence Mode", "Enabled"),
        ("MIG Mode", [("Current", state), ("Pending", state)]),
        ("Serial Number", chip.serial),
        ("GPU UUID", chip.uuid),
        ("Minor Number", str(chip.index)),
        ("PCI", [("Bus Id", chip.bus_id)]),
        ("Fan Speed", "N/A" if make.fan_percent is None else f"{make.fan_percent} %"),
        ("Performance State", make.perf_state),
        ("Compute Mode", "Default"),
    ]


def _ecc_pairs(chip: SimulatedChip, make: SimulatedDevices) -> Pairs:
    names = ("SRAM Correctable", "SRAM Uncorrectable", "DRAM Correctable", "DRAM Uncorrectable")
    counts = ("0", "0", "0", str(chip.ecc_uncorrected))
    return [(name, count if make.ecc else "N/A") for name, count in zip(names, counts, strict=True)]


def _row_pairs() -> Pairs:
    return [
        ("Correctable Error", "0"),
        ("Uncorrectable Error", "0"),
        ("Pending", "No"),
        ("Remapping Failure Occurred", "No"),
    ]


def _power_pairs(chip: SimulatedChip, make: SimulatedDevices, newer: bool) -> Pairs:
    draw = "N/A" if chip.power_w is None else f"{chip.power_w:.2f} W"
    return [
        ("Average Power Draw" if newer else "Power Draw", draw),
        ("Current Power Limit", f"{make.power_limit_w}.00 W"),
    ]
