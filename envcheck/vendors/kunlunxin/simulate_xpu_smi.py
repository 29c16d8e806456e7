"""xpu-smi in the format of drivers 5.x: the table, -q -x, -q, -L, -m, topo -m and xpulink -s."""

from __future__ import annotations

import time

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.query_text import Pairs, QueryText, Section, make_query_replies
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.topology import find_relation
from envcheck.core.simulate.xml_nodes import Node, memory_nodes, render_node
from envcheck.vendors.kunlunxin import VENDOR
from envcheck.vendors.kunlunxin.simulate_topology import format_matrix

INTERFACE_VERSION = "515.58"  # what the NVIDIA-like interface of the driver reports
CUDA_LEVEL = "10.2"
L3_MIB = 96
PBL, PCIE, SBL, OLD_SBL = "1.0", "2.14", "1.48", "1.39"  # a public -q -x; FastDeploy#2660
CPLD, ARCHITECTURE, PART, SUBSYSTEM = "5.4", "KL3", "B00100300110312", "00010001"  # a public -q -x
OAM_IDS = (3, 2, 0, 1, 7, 6, 4, 5)  # the same
XPULINK = "XL"
_TYPES = ("MEMORY", "UTILIZATION", "ECC", "TEMPERATURE", "POWER", "CLOCK", "PIDS")
_FULL = "+" + "-" * 77 + "+"
_CELLS = "+" + "+".join("-" * width for width in (31, 22, 22)) + "+"
_HEAD = (
    "|" + "+".join("-" * width for width in (31, 22, 22)) + "+",
    "| XPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | XPU-Util  Compute M. |",
    "|                               |             L3-Usage |            SR-IOV M. |",
    "|" + "+".join("=" * width for width in (31, 22, 22)) + "|",
)
_PROCESSES = (
    f"|{' Processes:':<77}|",
    f"|{'  XPU   XI   CI        PID   Type   Process name':<66}XPU Memory |",
    f"|{'        ID   ID':<66}Usage      |",
    "|" + "=" * 77 + "|",
)
# The tool's own words for these two are not published.
_EMPTY = ProgramReply("No devices were found\n", status=6)
_USAGE = ProgramReply("ERROR: Option is not recognized. Please run 'xpu-smi -h' for help.\n", status=2)
_HELP = ProgramReply(
    "xpu-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n\n"
    "    -h                 Print usage information.\n"
    "    -L                 List the devices.\n"
    "    -m                 One line per device, for programs.\n"
    "    -q                 All properties as text.\n"
    "    -x                 All properties as XML, with -q.\n"
    f"    -d TYPE            Only one part, with -q: {', '.join(_TYPES)}.\n"
    "    -i ID              Only one device, with -q.\n"
    "    topo -m            Matrix of the links.\n"
    "    xpulink -s         States of the links.\n\n"
    "This simulated xpu-smi supports only these options.\n"
)


def make_xpu_smi(machine: SimulatedSystem, now: float) -> SimulatedProgram:
    """Return the executable with its answers at the time `now` (seconds since 1970)."""
    assert machine.driver is not None and machine.devices is not None
    make, driver = machine.devices, machine.driver
    stamp = time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime(now))
    replies = dict.fromkeys(("", "-q", "-q -x", "-x", "-L", "-m", "topo -m", "xpulink -s"), _EMPTY)
    if machine.listed_chips:
        xml = ProgramReply(_render_xml(machine, make, _shown_version(machine, driver), stamp))
        replies = {
            "": ProgramReply(f"{stamp:<31}\n{_render_table(machine, make, driver)}"),
            **make_query_replies(_describe_query(machine, make, _shown_version(machine, driver), stamp), *_TYPES),
            "-q -x": xml,
            "-x": xml,
            "-L": ProgramReply(
                "".join(f"XPU {n}: {make.name}  {c.uuid}\n" for n, c in enumerate(machine.listed_chips))
            ),
            "-m": ProgramReply(_render_machine_lines(machine, make)),
            "topo -m": ProgramReply(format_matrix(machine)),
            "xpulink -s": ProgramReply(_render_links(machine)),
        }
    replies["-h"] = _HELP
    listings = ("", "-q", "-q -x", "-x")
    return SimulatedProgram("xpu-smi", replies, (("", _USAGE),), listings, aliases=("xpu_smi",))


def _shown_version(machine: SimulatedSystem, driver: SimulatedDriver) -> str:
    return INTERFACE_VERSION if machine.has_fault("xre-hidden") else driver.version


def _sbl_version(machine: SimulatedSystem) -> str:
    return OLD_SBL if machine.has_fault("sbl-old") else SBL


def _busy(chip: SimulatedChip) -> int:
    return 97 if chip.holders else 0


def _render_table(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver) -> str:
    own = ".".join(driver.library.split(".")[:3]) or driver.toolkit
    runtime = "N/A" if machine.has_fault("xre-hidden") else own
    banner = f" XPU-SMI               Driver Version: {_shown_version(machine, driver):<12} XPU-RT Version: {runtime}"
    lines = [_FULL, f"|{banner:<77.77}|", *_HEAD]
    for n, chip in enumerate(machine.listed_chips):
        lines += [*_device_rows(n, chip, make), _CELLS]
    return "\n".join([*lines, " " * len(_FULL), _FULL, *_PROCESSES, *_process_rows(machine), _FULL]) + "\n"


def _device_rows(n: int, chip: SimulatedChip, make: SimulatedDevices) -> tuple[str, str, str]:
    """|   0  P800 OAM           N/A   | 00000000:03:00.0 N/A |                    0 |
    | N/A   37C  N/A     88W / 400W |      0MiB / 98304MiB |      0%      Default |
    |                               |      0MiB /    96MiB |             Disabled |"""
    memory = f"{f'{chip.memory_used_mib}MiB':>9} / {f'{make.memory_mib}MiB':>8}"
    power = f"{chip.power_w or 0:.0f}W"
    heat = f" N/A{f'{chip.temperature_c}C':>6}  N/A{power:>8} / {make.power_limit_w}W "
    return (
        f"|{n:>4}  {make.name:<19}{'N/A':<6}| {chip.bus_id} N/A |{chip.ecc_uncorrected:>21} |",
        f"|{heat:<31}| {memory} |{f'{_busy(chip)}%':>8}      Default |",
        f"|{'':31}| {'0MiB':>9} / {f'{L3_MIB}MiB':>8} |{'Disabled':>21} |",
    )


def _process_rows(machine: SimulatedSystem) -> list[str]:
    rows = [
        f"|{n:>5}   N/A  N/A{held.pid:>11}{'C':>7}   {held.name:<28}{f'{held.memory_mib}MiB':>11} |"
        for n, chip in enumerate(machine.listed_chips)
        for held in chip.holders
    ]
    return rows or [f"|{'  No running processes found':<77}|"]


def _render_machine_lines(machine: SimulatedSystem, make: SimulatedDevices) -> str:
    sbl = _sbl_version(machine)
    return "".join(_machine_line(n, chip, make, sbl) for n, chip in enumerate(machine.listed_chips))


def _machine_line(n: int, chip: SimulatedChip, make: SimulatedDevices, sbl: str) -> str:
    clocks = " ".join([str(make.clock_sm_mhz)] * 6)
    memory = f"0 {L3_MIB} {chip.memory_used_mib} {make.memory_mib}"
    rest = " ".join(["0"] * 10)
    return (
        f"{chip.bus_id} {n} {n} {chip.serial} {chip.temperature_c} 0 0 0 {chip.power_w or 0:.0f} {clocks} {memory} "
        f'{_busy(chip)} {PBL}:{PCIE}:{sbl}.{CPLD} "{make.name}" {rest}\n'
    )


def _render_xml(machine: SimulatedSystem, make: SimulatedDevices, version: str, stamp: str) -> str:
    devices: list[Node] = [
        (f'xpu id="{chip.bus_id}"', _device_nodes(chip, make, _sbl_version(machine))) for chip in machine.listed_chips
    ]
    nodes: list[Node] = [
        ("timestamp", stamp),
        ("driver_version", version),
        ("cuda_version", CUDA_LEVEL),
        ("attached_xpus", str(len(devices))),
        *devices,
    ]
    head = '<?xml version="1.0" ?>\n<!DOCTYPE xpu_smi_log SYSTEM "xpusmi_device_v11.dtd">\n'
    return head + "".join(render_node(("xpu_smi_log", nodes)))


def _device_nodes(chip: SimulatedChip, make: SimulatedDevices, sbl: str) -> list[Node]:
    processes: list[Node] = [
        (
            "process_info",
            [("pid", str(held.pid)), ("process_name", held.name), ("used_memory", f"{held.memory_mib} MiB")],
        )
        for held in chip.holders
    ]
    errors: list[Node] = [("dram_correctable", "0"), ("dram_uncorrectable", str(chip.ecc_uncorrected))]
    return [
        ("product_name", make.name),
        ("product_brand", "KUNLUNXIN"),
        ("product_architecture", ARCHITECTURE),
        ("serial", chip.serial),
        ("uuid", chip.uuid),
        ("minor_number", str(chip.index)),
        ("oam_id", _oam_id(chip)),
        ("xpu_part_number", PART),
        ("firmware_version", _firmware_nodes(sbl)),
        ("pci", _pci_nodes(chip, make)),
        ("fb_memory_usage", memory_nodes(make.memory_mib, chip.memory_used_mib)),
        ("l3_usage", memory_nodes(L3_MIB, 0)),
        ("utilization", [("xpu_util", f"{_busy(chip)} %")]),
        ("ecc_mode", [("current_ecc", _ecc_mode(make)), ("pending_ecc", _ecc_mode(make))]),
        ("ecc_errors", [("volatile", errors), ("aggregate", errors)]),
        ("temperature", [("xpu_temp", f"{chip.temperature_c} C")]),
        (
            "supported_xpu_target_temp",
            [("xpu_target_temp_min", "Invalid Argument"), ("xpu_target_temp_max", "Invalid Argument")],
        ),
        (
            "power_readings",
            [
                ("power_state", "N/A"),
                ("enforced_power_limit", f"{make.power_limit_w}.00 W"),
                ("power_draw", f"{chip.power_w or 0:.2f} W"),
            ],
        ),
        ("clocks", [("cluster_clock", f"{make.clock_sm_mhz} MHz"), ("cdnn_clock", f"{make.clock_sm_mhz} MHz")]),
        ("processes", processes),
        ("accounted_processes", []),
    ]


def _oam_id(chip: SimulatedChip) -> str:
    return str(OAM_IDS[chip.index] if chip.index < len(OAM_IDS) else chip.index)


def _ecc_mode(make: SimulatedDevices) -> str:
    return "Enabled" if make.ecc else "Disabled"


def _firmware_nodes(sbl: str) -> list[Node]:
    whole = f"{PBL}.{PCIE}.{sbl}"
    parts = (("pbl_version", PBL), ("pcie_version", PCIE), ("sbl", sbl), ("all_version", whole), ("cpld_version", CPLD))
    return list(parts)


def _split_address(chip: SimulatedChip) -> tuple[str, str, str, str]:
    """Return domain, bus, device and function."""
    domain, bus, rest = chip.bus_id.split(":")
    device, _dot, function = rest.partition(".")
    return domain[-4:], bus, device, function


def _device_id(make: SimulatedDevices) -> str:
    return f"{make.pci_id}{make.pci_vendor or VENDOR.pci_vendor}".upper()


def _pci_nodes(chip: SimulatedChip, make: SimulatedDevices) -> list[Node]:
    domain, bus, device, function = _split_address(chip)
    generation: list[Node] = [("max_link_gen", "4"), ("current_link_gen", "4")]
    widths: list[Node] = [("max_link_width", "16x"), ("current_link_width", "16x")]
    return [
        ("pci_bus", bus),
        ("pci_device", device),
        ("pci_device", function),  # as the tool prints it
        ("pci_domain", domain),
        ("pci_device_id", _device_id(make)),
        ("pci_bus_id", chip.bus_id),
        ("pci_sub_system_id", SUBSYSTEM),
        ("pci_xpu_link_info", [("pcie_gen", generation), ("link_widths", widths)]),
    ]


def _describe_query(machine: SimulatedSystem, make: SimulatedDevices, version: str, stamp: str) -> QueryText:
    head = [
        ("Timestamp", stamp),
        ("Driver Version", version),
        ("XPU-RT Version", CUDA_LEVEL),
        ("", ""),
        ("Attached XPUs", str(len(machine.listed_chips))),
    ]
    devices = [
        (f"XPU {chip.bus_id}", _query_sections(chip, make, _sbl_version(machine))) for chip in machine.listed_chips
    ]
    return QueryText("XPUSMI LOG", head, devices)


def _query_sections(chip: SimulatedChip, make: SimulatedDevices, sbl: str) -> list[Section]:
    return [
        ("", _identity_pairs(chip, make, sbl)),
        ("MEMORY", _memory_pairs("Memory Usage", make.memory_mib, chip.memory_used_mib)),
        ("MEMORY", _memory_pairs("L3 Usage", L3_MIB, 0)),
        ("UTILIZATION", [("Utilization", [("Xpu", f"{_busy(chip)} %")])]),
        ("ECC", [("Ecc Mode", [("Current", _ecc_mode(make)), ("Pending", _ecc_mode(make))])]),
        ("ECC", [("ECC Errors", [("Volatile", _ecc_pairs(chip)), ("Aggregate", _ecc_pairs(chip))])]),
        ("TEMPERATURE", [("Temperature", [("XPU Current Temp", f"{chip.temperature_c} C")])]),
        ("POWER", [("Power Readings", _power_pairs(chip, make))]),
        ("CLOCK", [("Clocks", [(name, f"{make.clock_sm_mhz} MHz") for name in ("Cluster", "CDNN")])]),
        ("PIDS", [("Processes", _process_pairs(chip) or "None")]),
    ]


def _identity_pairs(chip: SimulatedChip, make: SimulatedDevices, sbl: str) -> Pairs:
    return [
        ("Product Name", make.name),
        ("Product Brand", "KUNLUNXIN"),
        ("Product Architecture", ARCHITECTURE),
        ("Serial Number", chip.serial),
        ("XPU UUID", chip.uuid),
        ("Minor Number", str(chip.index)),
        ("OAM Id", _oam_id(chip)),  # a PCIe card has "PCIe Id"; the whole text of an OAM card is not published
        ("XPU Part Number", PART),
        ("Firmware Version", _firmware_pairs(sbl)),
        ("PCI", _pci_pairs(chip, make)),
    ]


def _firmware_pairs(sbl: str) -> Pairs:
    parts = (("PBL", PBL), ("PCIE", PCIE), ("SBL", sbl), ("ALL", f"{PBL}.{PCIE}.{sbl}"), ("CPLD", CPLD))
    return [(f"{name} Version", version) for name, version in parts]


def _pci_pairs(chip: SimulatedChip, make: SimulatedDevices) -> Pairs:
    domain, bus, device, function = _split_address(chip)
    generation, widths = (("Max", "4"), ("Current", "4")), (("Max", "16x"), ("Current", "16x"))
    return [
        ("Bus", f"0x{bus}"),
        ("Device", f"0x{device}"),
        ("Function", f"0x{function}"),
        ("Domain", f"0x{domain}"),
        ("Device Id", f"0x{_device_id(make)}"),
        ("Bus Id", chip.bus_id),
        ("Sub System Id", f"0x{SUBSYSTEM}"),
        ("XPU Link Info", [("PCIe Generation", generation), ("Link Width", widths)]),
    ]


def _process_pairs(chip: SimulatedChip) -> Pairs:
    """Return the processes as nvidia-smi prints them: no output of xpu-smi with one is published."""
    return [
        pair
        for held in chip.holders
        for pair in (
            ("Process ID", str(held.pid)),
            ("    Type", "C"),
            ("    Name", held.name),
            ("    Used XPU Memory", f"{held.memory_mib} MiB"),
        )
    ]


def _memory_pairs(name: str, total: int, used: int) -> Pairs:
    sizes = (("Total", total), ("Reserved", 0), ("Used", used), ("Free", total - used))
    return [(name, [(key, f"{mib} MiB") for key, mib in sizes])]


def _ecc_pairs(chip: SimulatedChip) -> Pairs:
    return [("DRAM Correctable", "0"), ("DRAM Uncorrectable", str(chip.ecc_uncorrected))]


def _power_pairs(chip: SimulatedChip, make: SimulatedDevices) -> Pairs:
    return [("Enforced Power Limit", f"{make.power_limit_w}.00 W"), ("Power Draw", f"{chip.power_w or 0:.2f} W")]


def _render_links(machine: SimulatedSystem) -> str:
    """Return `xpulink -s`: the links of each card to those of its group.  Its layout is not published."""
    lines = []
    for n, chip in enumerate(machine.listed_chips):
        lines.append(f"XPU {n}: {machine.devices.name if machine.devices else ''}  {chip.uuid}")
        lines += [f"    Link {link}: {state}" for link, state in enumerate(_link_states(machine, chip))]
    return "\n".join(lines) + "\n"


def _link_states(machine: SimulatedSystem, chip: SimulatedChip) -> list[str]:
    assert machine.links is not None
    group = next((group for group in machine.links.groups if chip.index in group), ())
    peers = [other for other in machine.chips if other.index in group and other.index != chip.index]
    found = (find_relation(machine, chip, other) for other in peers)
    return ["active" if relation == XPULINK else "inactive" for relation in found]
