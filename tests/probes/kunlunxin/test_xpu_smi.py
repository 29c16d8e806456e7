"""Special cases of the xpu_smi parser; recordings and expected documents are in tests/data/xpu_smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.vendors.kunlunxin import VENDOR
from probes.kunlunxin import foreign_output, xpu_smi
from probes.smi import ixsmi, nvidia_smi

DATA = Path(__file__).parents[2] / "data"
P800 = (DATA / "xpu_smi/table/p800_vf_processes.txt").read_text(encoding="utf-8")
R300 = (DATA / "xpu_smi/table/old_r300_processes.txt").read_text(encoding="utf-8")
FOREIGN = sorted(
    raw for tool in ("nvidia_smi", "ixsmi", "npu_smi") for raw in (DATA / tool).glob("*/*") if raw.suffix != ".json"
)


def test_the_document_names_the_vendors_tool() -> None:
    """The tool of the document is that of the vendor's record."""
    assert xpu_smi.parse(P800).tool == VENDOR.tool


def test_the_l3_cache_is_not_memory() -> None:
    """The row of L3 has the form of the row of memory, in both layouts."""
    devices = [*xpu_smi.parse(P800).devices, *xpu_smi.parse(R300).devices]

    assert [device.memory_total_mib for device in devices] == [98304, 49152, 32768, 32768]


def test_the_version_of_the_interface_is_reported_as_printed() -> None:
    """In a container without XRE the driver is 515.58 and the runtime is absent."""
    text = P800.replace("5.0.21.40   ", "515.58      ").replace("XPU-RT Version: 5.0.21", "XPU-RT Version: N/A   ")

    document = xpu_smi.parse(text)

    assert (document.driver_version, document.runtime_version) == ("515.58", None)


@pytest.mark.parametrize("raw", FOREIGN, ids=lambda path: "/".join(path.parts[-3:]))
def test_other_tools_outputs_have_no_xpu(raw: Path) -> None:
    """A text of another vendor's tool gives no device; readings without any name of a tool aside."""
    document = xpu_smi.parse(raw.read_bytes().decode("utf-8", "replace"))

    assert document.kind in ("unknown", "error", "log")
    assert document.kind == "log" or document.devices == ()


def test_other_tools_reject_the_table() -> None:
    """The parsers of the similar tools do not read it."""
    assert [nvidia_smi.parse(P800).kind, ixsmi.parse(P800).kind] == ["unknown", "unknown"]


@pytest.mark.parametrize("name", ["P800", "Kunlunxin R300", "昆仑芯 K200"])
def test_prose_does_not_make_intels_output_kunlunxins(name: str) -> None:
    """Only marks of the output decide, not names beside it."""
    text = f"The {name} machine:\n$ xpu-smi discovery\n| Device ID | Device Information |\n| 0 | Device Type: GPU |\n"

    assert foreign_output.is_intel_output(text)
    assert not foreign_output.is_intel_output(text + P800)


def test_only_the_first_table_of_a_loop_counts() -> None:
    """Repeated outputs of the old layout do not add up."""
    assert len(xpu_smi.parse(R300 + R300).devices) == 2


def test_only_the_first_process_of_a_device_has_its_number() -> None:
    """Below it the cell is blank; a masked number is unknown."""
    head = "  PROCESSES\n" + "-" * 55 + "\n| DevID |  PID  | Streams |  L3  | Memory | Command |\n" + "-" * 55 + "\n"
    rows = "".join(
        f"| {number:5} | {pid} | 1       | 0 MB |   1 MB | train   |\n"
        for number, pid in (("0", 11), ("", 12), ("3", 13), ("", 14), ("*", 15))
    )

    found = xpu_smi.parse(R300.partition("  PROCESSES")[0] + head + rows + "-" * 55 + "\n").processes

    assert [(each.pid, each.device) for each in found] == [(11, 0), (12, 0), (13, 3), (14, 3), (15, None)]
