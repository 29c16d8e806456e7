"""npu-smi, in the formats of 24.1 to 25.5 for 910B (one chip per card) and A3 (two dies, Phy-ID column)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.vendors.ascend.simulate_topology import format_matrix

_WIDE = "+" + "-" * 96 + "+"
_THIN, _BOLD = ("+" + "+".join(mark * width for width in (27, 15, 52)) + "+" for mark in "-=")
_HEAD = (
    _THIN,
    "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
    "| {chip:<26}| Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
    _BOLD,
)
_PROCESSES = "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |"
# The answers to an unknown id or type in the tool's public source (hicann/driver).
_BAD_ID, _BAD_TYPE = (
    ProgramReply("Error parameter of -i\n", status=1),
    ProgramReply("Error parameter of -t\n", status=1),
)
_USAGE = ProgramReply("Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]\n", status=1)
_EMPTY = ProgramReply("There is no NPU card on this server.\n", status=1)
_REFUSED = ("product", "spod-info", "vnpu-svm", "license", "nve-level")

# From containers (vllm-project/vllm-ascend#2698, Ascend/cann-container-image#46); both have this first line.
_PREFACE = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
DCMI_8005 = ProgramReply(_PREFACE + "dcmi module initialize failed. ret is -8005\n", status=1)
DCMI_8020 = ProgramReply(
    _PREFACE + "dcmi model initialized failed, because the device is used. ret is -8020\n", status=1
)


def make_npu_smi(machine: SimulatedSystem) -> SimulatedProgram:
    """Return the executable; a lost card is missing in every answer."""
    assert machine.driver is not None and machine.devices is not None
    make, driver = machine.devices, machine.driver
    cards = [list(chips) for _, chips in groupby(machine.listed_chips, lambda chip: chip.card)]
    replies = {
        "info": _render_info(machine, make, driver) if cards else _EMPTY,
        "info -m": ProgramReply(_render_mapping(machine, make)) if cards else _EMPTY,
        "info -l": ProgramReply(_render_list(cards)) if cards else _EMPTY,
        "info -t topo": ProgramReply(format_matrix(machine)) if cards else _EMPTY,
        "-v": ProgramReply(f"npu-smi version: {driver.tool_version}\n"),
    }
    for card in cards:
        for kind, text in _TYPES.items():
            replies[f"info -t {kind} -i {card[0].card}"] = ProgramReply(text(card, make, driver))
            for chip in card if kind != "board" else ():
                replies[f"info -t {kind} -i {chip.card} -c {chip.die}"] = ProgramReply(text([chip], make, driver))
    refused = [
        (f"info -t {kind}", ProgramReply(f"This device does not support querying {kind}.\n", status=1))
        for kind in _REFUSED
    ]
    otherwise = (*refused, *((f"info -t {kind} -i ", _BAD_ID) for kind in _TYPES), ("info -t ", _BAD_TYPE))
    return SimulatedProgram("npu-smi", replies, (*otherwise, ("", _USAGE)), listings=("info",))


def _render_info(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver) -> ProgramReply:
    banner = f" npu-smi {driver.tool_version:<25}Version: {driver.version}"
    second_head = "Chip  Phy-ID" if make.phy_ids else "Chip"
    lines = [_WIDE, f"|{banner:<96.96}|", *(line.format(chip=second_head) for line in _HEAD)]
    for chip in machine.listed_chips:
        lines += [*_chip_rows(chip, make), _BOLD if _is_last_of_card(chip, machine) else _WIDE]
    lines += [_THIN, _PROCESSES, _BOLD]
    for card in sorted({chip.card for chip in machine.listed_chips}):
        lines += [*_process_rows(card, machine), _BOLD]
    return ProgramReply("\n".join(lines) + "\n")


def _chip_rows(chip: SimulatedChip, make: SimulatedDevices) -> tuple[str, str]:
    """| 0     910B3               | OK            | 101.8       43                0    / 0             |
    | 0                         | 0000:C1:00.0  | 0           0    / 0          3318 / 65536         |"""
    power = "-" if chip.power_w is None else f"{chip.power_w}"
    number = f"{chip.die:<5} {chip.index:<20}" if make.phy_ids else f"{chip.die:<26}"
    memory = f"{chip.memory_used_mib:<5}/ {make.memory_mib}"
    busy, none = 97 if chip.holders else 0, "0    / 0"
    return (
        f"| {chip.card:<5} {make.name:<20.20}| {chip.health:<13} | {power:<11} {chip.temperature_c:<17} {none:<20} |",
        f"| {number}| {chip.bus_id:<13} | {busy:<11} {none:<17} {memory:<20} |",
    )


def _is_last_of_card(chip: SimulatedChip, machine: SimulatedSystem) -> bool:
    return all(other.card != chip.card or other.die <= chip.die for other in machine.listed_chips)


def _process_rows(card: int, machine: SimulatedSystem) -> list[str]:
    rows = [
        f"| {card:<7} {chip.die:<18}| {held.pid:<13} | {held.name:<24} | {held.memory_mib:<23} |"
        for chip in machine.listed_chips
        if chip.card == card
        for held in chip.holders
    ]
    return rows or [f"| {f'No running processes found in NPU {card}':<95}|"]


def _render_mapping(machine: SimulatedSystem, make: SimulatedDevices) -> str:
    """Return `info -m`: each card also lists its management controller, which has no logic id."""
    name = make.name if make.name.startswith("Ascend") else f"Ascend {make.name}"
    rows = [("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")]
    for logic, chip in enumerate(machine.listed_chips):
        rows.append((str(chip.card), str(chip.die), str(logic), name))
        if _is_last_of_card(chip, machine):
            rows.append((str(chip.card), str(make.chips_per_card), "-", "Mcu"))
    return "".join("\t" + "".join(f"{cell:<31}" for cell in row).rstrip() + "\n" for row in rows)


def _render_list(cards: list[list[SimulatedChip]]) -> str:
    blocks = [_render_fields([("Total Count", len(cards))])]
    blocks += [_render_fields([("NPU ID", card[0].card), ("Chip Count", len(card))]) for card in cards]
    return "\n".join(blocks)


def _render_fields(pairs: Iterable[tuple[str, object]], width: int = 31) -> str:
    return "".join(f"        {key:<{width}}: {value}\n" for key, value in pairs)


def _render_board(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    first = card[0]
    return _render_fields(
        [
            *(("NPU ID", first.card), ("Product Name", make.product or "NA"), ("Model", "NA")),
            *(("Manufacturer", "Huawei"), ("Serial Number", first.serial)),
            *(("Software Version", driver.version), ("Firmware Version", driver.firmware or "NA")),
            *(("Compatibility", "OK"), ("Board ID", "0x60"), ("PCB ID", "A"), ("BOM ID", "1")),
            *(("PCIe Bus Info", first.bus_id), ("Slot ID", first.card), ("Class ID", "NA")),
            *(("PCI Vendor ID", "0x19E5"), ("PCI Device ID", f"0x{make.pci_id.upper()}")),
            *(("Subsystem Vendor ID", "0x19E5"), ("Subsystem Device ID", "0x3003"), ("Chip Count", len(card))),
        ]
    )


def _render_blocks(
    card: list[SimulatedChip], of_chip: Callable[[SimulatedChip], list[tuple[str, object]]], width: int = 31
) -> str:
    """Return a -t answer: the head, then a block for each chip, which ends with its Chip ID."""
    head = _render_fields([("NPU ID", card[0].card), ("Chip Count", len(card))], width)
    return "\n".join([head, *(_render_fields([*of_chip(chip), ("Chip ID", chip.die)], width) for chip in card)])


def _render_usages(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    def block(chip: SimulatedChip) -> list[tuple[str, object]]:
        busy = 97 if chip.holders else 0
        return [
            *(("DDR Capacity(MB)", 0), ("DDR Usage Rate(%)", 0)),
            *(("DDR Hugepages Total(page)", 0), ("DDR Hugepages Usage Rate(%)", 0)),
            ("HBM Capacity(MB)", make.memory_mib),
            ("HBM Usage Rate(%)", round(100 * chip.memory_used_mib / make.memory_mib)),
            *(("Aicore Usage Rate(%)", busy), ("Aivector Usage Rate(%)", 0), ("Aicpu Usage Rate(%)", 0)),
            *(("Ctrlcpu Usage Rate(%)", 3), ("DDR Bandwidth Usage Rate(%)", 0), ("HBM Bandwidth Usage Rate(%)", 0)),
        ]

    return _render_blocks(card, block)


def _render_health(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    """Return the health of the card: that of its worst chip."""
    worst = max(card, key=lambda chip: ("OK", "Warning", "Alarm", "Critical").index(chip.health))
    text = "NA" if worst.error_code == "NA" else "simulated by envcheck"
    pairs = [("Health Status", worst.health), ("Error Code", worst.error_code), ("Error Information", text)]
    return _render_fields(pairs)


def _render_ecc(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    """Return the ECC counters; double bit errors are the uncorrectable ones."""

    def block(chip: SimulatedChip) -> list[tuple[str, object]]:
        double = chip.ecc_uncorrected
        counts = [
            (f"{memory} {bits} Bit {what}", double if (memory, bits) == ("HBM", "Double") else 0)
            for memory in ("DDR", "HBM")
            for what in ("Error Count", "Aggregate Total Err Cnt", "Isolated Pages Count")
            for bits in ("Single", "Double")
        ]
        return list(counts)

    return _render_blocks(card, block, 41)


def _render_temperature(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    return _render_blocks(card, lambda chip: [("NPU Temperature (C)", chip.temperature_c)])


def _render_power(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    return _render_blocks(
        card, lambda chip: [("NPU Real-time Power(W)", "NA" if chip.power_w is None else chip.power_w)]
    )


def _render_memory(card: list[SimulatedChip], make: SimulatedDevices, driver: SimulatedDriver) -> str:
    return _render_blocks(card, lambda chip: [("HBM Capacity(MB)", make.memory_mib), ("HBM Clock Speed(MHz)", 1600)])


_TYPES: dict[str, Callable[[list[SimulatedChip], SimulatedDevices, SimulatedDriver], str]] = {
    "board": _render_board,
    "usages": _render_usages,
    "health": _render_health,
    "ecc": _render_ecc,
    "temp": _render_temperature,
    "power": _render_power,
    "memory": _render_memory,
}
