"""Special cases of the ixsmi parser; recordings and expected documents are in tests/data/ixsmi."""

from __future__ import annotations

from pathlib import Path

from probes.smi import ixsmi, nvidia_smi

DATA = Path(__file__).parents[1] / "data" / "ixsmi"
BUSY = (DATA / "table" / "biv150_busy_430.txt").read_text(encoding="utf-8")


def test_one_sensor_a_board() -> None:
    """A two-chip board has one power sensor: the second chip's power is absent, not zero."""
    assert [device.power_w for device in ixsmi.parse(BUSY).devices] == [None, 103]


def test_the_unit_of_process_memory_stands_in_the_head() -> None:
    """Below 'Usage(MiB)' a bare number is MiB."""
    assert [process.memory_mib for process in ixsmi.parse(BUSY).processes] == [29950]


def test_tool_and_driver_versions_may_differ() -> None:
    """IX-ML is the tool's version, separate from the driver's; 'N/A' gives no version."""
    text = BUSY.replace("IX-ML: 4.3.0", "IX-ML: 4.0.0").replace("CUDA Version: 10.2", "CUDA Version: N/A ")

    document = ixsmi.parse(text)

    assert (document.tool_version, document.driver_version, document.cuda_version) == ("4.0.0", "4.3.0", None)


def test_a_template_has_no_versions() -> None:
    """Documentation prints '<version>'; the devices below it still count."""
    document = ixsmi.parse(BUSY.replace("4.3.0", "<version>").replace("10.2", "<version>"))

    assert (document.tool_version, document.driver_version, document.cuda_version) == (None, None, None)
    assert len(document.devices) == 2


def test_a_cap_cut_by_its_column() -> None:
    """A broken chip prints 65535W, which pushes the cap's unit out of the cell; the numbers stay."""
    text = BUSY.replace("| N/A  35C   P0    103W / 350W  |", "| N/A  0C    P0    65535W / 350 |")

    assert [(d.power_w, d.power_limit_w) for d in ixsmi.parse(text).devices] == [(None, None), (65535, 350)]


def test_each_tool_reads_its_own_table() -> None:
    """A table that names the other tool is rejected."""
    assert nvidia_smi.parse(BUSY).kind == "unknown"
    assert ixsmi.parse(BUSY).kind == "table"
