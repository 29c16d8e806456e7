"""The simulated xpu-smi prints the layouts of drivers 5.x that are published."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from envcheck.collect.answer_sources import AnswerSource
from envcheck.core.model import Outcome, Question
from envcheck.core.simulate.machine import SimulatedSystem
from tests.envcheck.simulate.simulation_parts import make_machine_opener, parse_tool, run_tool

MachineOpener = Callable[..., tuple[SimulatedSystem, AnswerSource]]
ROWS = (
    "|   0  P800 OAM           N/A   | 00000000:03:00.0 N/A |                    0 |",
    "| N/A   37C  N/A     88W / 400W |      0MiB / 98304MiB |      0%      Default |",
    "|                               |      0MiB /    96MiB |             Disabled |",
)
TEXT_KEYS = """
Product Name,Product Brand,Product Architecture,Serial Number,XPU UUID,Minor Number,OAM Id,XPU Part Number,
Firmware Version,PBL Version,PCIE Version,SBL Version,ALL Version,CPLD Version,PCI,Bus,Device,Function,Domain,Device Id,
Bus Id,Sub System Id,XPU Link Info,PCIe Generation,Max,Current,Link Width,Max,Current,Memory Usage,Total,Reserved,Used,
Free,L3 Usage,Total,Reserved,Used,Free,Utilization,Xpu,Ecc Mode,Current,Pending,ECC Errors,Volatile,DRAM Correctable,
DRAM Uncorrectable,Aggregate,DRAM Correctable,DRAM Uncorrectable,Temperature,XPU Current Temp,Power Readings,
Enforced Power Limit,Power Draw,Clocks,Cluster,CDNN,Processes"""
XML_TAGS = """product_name product_brand product_architecture serial uuid minor_number oam_id xpu_part_number
firmware_version pbl_version pcie_version sbl all_version cpld_version pci pci_bus pci_device pci_device pci_domain
pci_device_id pci_bus_id pci_sub_system_id pci_xpu_link_info pcie_gen max_link_gen current_link_gen link_widths
max_link_width current_link_width fb_memory_usage total reserved used free l3_usage total reserved used free utilization
xpu_util ecc_mode current_ecc pending_ecc ecc_errors volatile dram_correctable dram_uncorrectable aggregate
dram_correctable dram_uncorrectable temperature xpu_temp supported_xpu_target_temp xpu_target_temp_min
xpu_target_temp_max power_readings power_state enforced_power_limit power_draw clocks cluster_clock cdnn_clock processes
accounted_processes"""


@pytest.fixture
def door(tmp_path: Path) -> MachineOpener:
    return make_machine_opener(tmp_path)


def test_table_has_the_published_layout(door: MachineOpener) -> None:
    """Banner, the three rows of a device and the process table are as in ERNIE's page."""
    _, at = door("p800x8")
    text = run_tool(at, "xpu-smi")
    lines = text.splitlines()

    assert "| XPU-SMI               Driver Version: 5.0.21.26    XPU-RT Version: 5.0.21   |" in lines
    assert tuple(lines[8:11]) == ROWS
    assert "|  No running processes found                                                 |" in lines
    assert text == run_tool(at, "xpu_smi")


def test_properties_have_the_published_fields(door: MachineOpener) -> None:
    """-q and -q -x have each field of the published outputs, in their order."""
    _, at = door("p800x8")
    block = run_tool(at, "xpu-smi", "-q").split("\nXPU ")[1].splitlines()[1:]
    keys = [line.split(" : ")[0].strip() for line in block if line]
    first = ElementTree.fromstring(run_tool(at, "xpu-smi", "-q", "-x")).findall("xpu")[0]

    assert [key.strip() for key in TEXT_KEYS.split(",")] == keys
    assert XML_TAGS.split() == [element.tag for element in first.iter()][1:]
    assert (first.findtext("pci/pci_device_id"), first.findtext("pci/pci_bus")) == ("36881D22", "03")
    assert all(re.fullmatch(r" *\S.{0,40}? *: \S.*", line) for line in block if " : " in line)


def test_properties_show_processes(door: MachineOpener) -> None:
    """A process is in the table, in -q and in -q -x with the same numbers."""
    _, at = door("p800x8", "memory-held=7000")
    for arguments in ((), ("-q",), ("-q", "-x")):
        read = parse_tool(at, "xpu-smi", *arguments)

        assert [(p.pid, p.name, p.memory_mib) for p in read.processes] == [(20817, "python3", 7000)]
        assert read.devices[0].memory_used_mib == 7000


def test_lines_for_machines_and_list(door: MachineOpener) -> None:
    """-m has 32 fields, -L the UUID without brackets; both list all devices."""
    machine, at = door("p800x8")
    fields = [shlex.split(line) for line in run_tool(at, "xpu-smi", "-m").splitlines()]

    assert [len(line) for line in fields] == [32] * 8
    assert [(line[0], line[2], line[16], line[18], line[21]) for line in fields] == [
        (chip.bus_id, str(chip.index), "96", "98304", "P800 OAM") for chip in machine.chips
    ]
    assert run_tool(at, "xpu-smi", "-L").splitlines() == [
        f"XPU {chip.index}: P800 OAM  {chip.uuid}" for chip in machine.chips
    ]


def test_pairs_of_cards_share_a_network_card(door: MachineOpener) -> None:
    """In topo -m, two cards have PIX to one network card; the first network card is of no card."""
    _, at = door("p800x8")
    rows = [line.split() for line in run_tool(at, "xpu-smi", "topo", "-m").splitlines() if line.startswith("XPU")]

    assert " ".join(rows[0][1:14]) == "X XL XL XL SYS SYS SYS SYS NODE PIX NODE SYS SYS"
    assert " ".join(rows[7][1:14]) == "SYS SYS SYS SYS XL XL XL X SYS SYS SYS NODE PIX"
    assert [row[9:14].index("PIX") for row in rows] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert parse_tool(at, "xpu-smi", "topo", "-m").topology is not None


def test_unknown_option_fails(door: MachineOpener) -> None:
    """Both names of the program refuse an option that does not exist."""
    _, at = door("p800x8")
    for name in ("xpu-smi", "xpu_smi"):
        assert at(Question("run", (name, "--dance"))).outcome is Outcome.FAILED


def test_version_file_suits_installation_scripts(door: MachineOpener) -> None:
    """The tenth word of the one line with KUNLUN is the version, which scripts read; the interface's is in the file."""
    _, at = door("p800x8")
    text = at(Question("read", ("/proc/kunlun/version",))).out
    (line,) = [line for line in text.splitlines() if "KUNLUN" in line]

    assert line.split()[9] == "5.0.21.26"
    assert "515.58" in text


def test_hidden_xre_leaves_the_interface_only(door: MachineOpener) -> None:
    """Without XRE the table has the interface's version and no runtime, and XRE is not there; the driver's file is."""
    _, at = door("p800x8", "xre-hidden")

    assert "Driver Version: 515.58       XPU-RT Version: N/A      |" in run_tool(at, "xpu-smi")
    assert "5.0.21.26" in at(Question("read", ("/proc/kunlun/version",))).out
    assert not at(Question("list", ("/usr/local/xpu*",))).out


def test_missing_module_is_named_as_the_cause(door: MachineOpener) -> None:
    """Without the kernel module the tool fails because of the driver, not because of missing cards."""
    error = parse_tool(door("p800x8", "module-gone")[1], "xpu-smi").error

    assert error is not None and error.category == "driver-not-loaded"
