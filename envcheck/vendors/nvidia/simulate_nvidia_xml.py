"""nvidia-smi -q -x: the part of schema v12 that envcheck reads. Since 570 it has two power readings."""

from __future__ import annotations

from envcheck.core.simulate.machine import (
    MigInstance,
    SimulatedChip,
    SimulatedDevices,
    SimulatedDriver,
    SimulatedSystem,
)
from envcheck.core.simulate.xml_nodes import Node, memory_nodes, render_node


def render_xml(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver, stamp: str) -> str:
    """Return the complete answer, indented with tabs."""
    nodes: list[Node] = [
        ("timestamp", stamp),
        ("driver_version", driver.version),
        ("cuda_version", driver.cuda),
        ("attached_gpus", str(len(machine.listed_chips))),
        *(
            (f'gpu id="{chip.bus_id}"', _gpu_nodes(n, chip, make, driver, machine.mig))
            for n, chip in enumerate(machine.listed_chips)
        ),
    ]
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return head + "".join(render_node(("nvidia_smi_log", nodes)))


def _gpu_nodes(
    n: int, chip: SimulatedChip, make: SimulatedDevices, driver: SimulatedDriver, mig: tuple[MigInstance, ...]
) -> list[Node]:
    state = "Enabled" if mig else "Disabled" if make.ecc else "N/A"
    instances: str | list[Node] = [_instance_node(i, part) for i, part in enumerate(mig)] if mig else "None"
    busy = "N/A" if mig else f"{97 if chip.holders else 0} %"
    return [
        ("product_name", make.name),
        ("product_brand", make.brand or "NVIDIA"),
        ("display_active", "Disabled"),
        ("persistence_mode", "Enabled"),
        ("mig_mode", [("current_mig", state), ("pending_mig", state)]),
        ("mig_devices", instances),
        ("serial", chip.serial),
        ("uuid", chip.uuid),
        ("minor_number", str(chip.index)),
        ("vbios_version", "96.00.A5.00.03"),
        ("gpu_reset_status", [("reset_required", "No"), ("drain_and_reset_recommended", "No")]),
        ("pci", _pci_nodes(chip, make)),
        ("fan_speed", "N/A" if make.fan_percent is None else f"{make.fan_percent} %"),
        ("performance_state", make.perf_state),
        ("fb_memory_usage", memory_nodes(make.memory_mib, chip.memory_used_mib)),
        ("compute_mode", "Default"),
        ("utilization", [("gpu_util", busy), ("memory_util", "N/A" if mig else "0 %")]),
        ("ecc_mode", [(f"{when}_ecc", "Enabled" if make.ecc else "Disabled") for when in ("current", "pending")]),
        ("ecc_errors", [(when, _ecc_nodes(chip, make)) for when in ("volatile", "aggregate")]),
        ("temperature", _temperature_nodes(chip)),
        ("gpu_power_readings", _power_nodes(chip, make, driver)),
        ("clocks", _clock_nodes(make)),
        ("processes", _process_nodes(chip, mig)),
    ]


def _pci_nodes(chip: SimulatedChip, make: SimulatedDevices) -> list[Node]:
    domain, bus, device = chip.bus_id.split(":")
    return [
        *(("pci_bus", bus), ("pci_device", device.split(".")[0]), ("pci_domain", domain[-4:])),
        ("pci_device_id", f"{make.pci_id.upper()}10DE"),
        ("pci_bus_id", chip.bus_id),
        ("pci_gpu_link_info", [("link_widths", [("max_link_width", "16x"), ("current_link_width", "16x")])]),
    ]


def _ecc_nodes(chip: SimulatedChip, make: SimulatedDevices) -> list[Node]:
    """Return the counters; uncorrectable errors are counted in DRAM."""
    names = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")
    counts = ("0", "0", "0", str(chip.ecc_uncorrected))
    return [(name, count if make.ecc else "N/A") for name, count in zip(names, counts, strict=True)]


def _temperature_nodes(chip: SimulatedChip) -> list[Node]:
    return [
        ("gpu_temp", f"{chip.temperature_c} C"),
        ("gpu_temp_max_threshold", "92 C"),
        ("gpu_temp_slow_threshold", "89 C"),
        ("memory_temp", f"{chip.temperature_c + 6} C"),
    ]


def _power_nodes(chip: SimulatedChip, make: SimulatedDevices, driver: SimulatedDriver) -> list[Node]:
    draw = "N/A" if chip.power_w is None else f"{chip.power_w:.2f} W"
    newer = int(driver.version.split(".")[0]) >= 570
    names = ("average_power_draw", "instant_power_draw") if newer else ("power_draw",)
    limit = f"{make.power_limit_w}.00 W"
    return [
        ("power_state", make.perf_state),
        *((name, draw) for name in names),
        *((f"{which}_power_limit", limit) for which in ("current", "requested", "default", "max")),
    ]


def _clock_nodes(make: SimulatedDevices) -> list[Node]:
    figures = (("graphics", make.clock_sm_mhz), ("sm", make.clock_sm_mhz), ("mem", make.clock_memory_mhz))
    return [(f"{name}_clock", f"{mhz} MHz") for name, mhz in figures]


def _instance_node(i: int, part: MigInstance) -> Node:
    counts = (("multiprocessor", part.multiprocessors), ("copy_engine", part.copy_engines), ("decoder", part.decoders))
    return (
        "mig_device",
        [
            *(("index", str(i)), ("gpu_instance_id", str(part.gpu_instance)), ("compute_instance_id", "0")),
            ("device_attributes", [("shared", [(f"{name}_count", str(count)) for name, count in counts])]),
            ("ecc_error_count", [("volatile_count", [("sram_uncorrectable", "0")])]),
            ("fb_memory_usage", memory_nodes(part.memory_mib, 37)),
        ],
    )


def _process_nodes(chip: SimulatedChip, mig: tuple[MigInstance, ...]) -> list[Node]:
    where = (str(mig[0].gpu_instance), "0") if mig else ("N/A", "N/A")
    return [
        (
            "process_info",
            [
                *(("gpu_instance_id", where[0]), ("compute_instance_id", where[1])),
                *(("pid", str(held.pid)), ("type", "C"), ("process_name", held.name)),
                ("used_memory", f"{held.memory_mib} MiB"),
            ],
        )
        for held in chip.holders
    ]
