"""Damaged tables and lists of nvidia-smi and ixsmi: values by their forms, and remarks on the cells that are lost."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.core.model import Document
from probes.smi import ixsmi, nvidia_smi, table_cells

DATA = Path(__file__).parents[2] / "data"
TABLE = (DATA / "nvidia_smi/table/a100x8_535.txt").read_text(encoding="utf-8")
IXSMI = (DATA / "ixsmi/table/biv150_busy_430.txt").read_text(encoding="utf-8")
XML = (DATA / "nvidia_smi/xml/a100x2_v12.xml").read_text(encoding="utf-8")
FIRST, SECOND = (
    next(at for at, line in enumerate(TABLE.splitlines()) if line.startswith(begin)) for begin in ("|   0 ", "| N/A")
)
HEAD_WORDS = ["GPU  Name", "Name", "Persistence-M", "Bus-Id", "Volatile", "Fan", "Temp", "Pwr:Usage/Cap",
              "Memory-Usage", "GPU-Util", "Compute M.", "MIG M."]  # fmt: skip
LEFT, RIGHT = "Fan  Temp   Perf          Pwr:Usage/Cap", "GPU-Util  Compute M."


def list_remarks(document: Document) -> list[tuple[int, str, str]]:
    return [(remark.line, remark.field, remark.text) for remark in document.remarks]


def replace_in_line(text: str, at: int, old: str, new: str) -> str:
    lines = text.split("\n")
    assert old in lines[at]
    lines[at] = lines[at].replace(old, new.ljust(len(old)), 1)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("labels", "cell", "values"),
    [
        ("GPU  Name      Persistence-M", "  0                Off", {"index": "0", "name": None, "persistence": "Off"}),
        ("GPU  Name      Persistence-M", "  0  ***           Off", {"index": "0", "name": "***", "persistence": "Off"}),
        ("GPU  Name      Persistence-M", "  **  Tesla T4      On", {"index": "**", "name": "Tesla T4"}),
        ("GPU  Name      Persistence-M", "  GeForce GTX 1070 Off", {"index": None, "name": "GeForce GTX 1070"}),
        ("GPU  Name      Persistence-M", "  0  GeForce GT ...   ", {"name": "GeForce GT ...", "persistence": None}),
        ("Bus-Id        Disp.A", "                 Off", {"bus_id": None, "display_active": "Off"}),
        (LEFT, "N/A          P0     110W / 350W", {"fan_percent": "N/A", "temperature_c": None, "power_w": "110W"}),
        (LEFT, "N/A   54C    P0     ****       ", {"fan_percent": "N/A", "power_w": "****", "power_limit_w": "****"}),
        (LEFT, "N/A   54C    **     11W / ERR! ", {"perf_state": "**", "power_w": "11W", "power_limit_w": "ERR!"}),
        ("Memory-Usage", "1235MiB / ****", {"memory_used_mib": "1235MiB", "memory_total_mib": "****"}),
        ("        Memory-Usage", "        / 46068MiB", {"memory_used_mib": None, "memory_total_mib": "46068MiB"}),
        ("        Memory-Usage", "1235MiB           ", {"memory_used_mib": "1235MiB", "memory_total_mib": None}),
        (RIGHT, "         E. Process", {"utilization_percent": None, "compute_mode": "E. Process"}),
        (RIGHT, "  9%     ***", {"utilization_percent": "9%", "compute_mode": "***"}),
    ],
)
def test_words_are_assigned_by_their_forms(labels: str, cell: str, values: dict[str, str | None]) -> None:
    """A blank or masked value leaves those beside it in their columns."""
    assert table_cells.read_cell(labels, cell).items() >= values.items()


@pytest.mark.parametrize("mask", ["", "***", "xxxx", "型号", "<masked>"])
def test_a_name_is_no_mask(mask: str) -> None:
    """A blank or masked name is None with a remark; the index and the other values stay."""
    whole = nvidia_smi.parse(TABLE)
    name = whole.devices[0].name or ""

    document = nvidia_smi.parse(replace_in_line(TABLE, FIRST, name, mask))

    assert [device.name for device in document.devices].count(None) == 1
    assert [device.bus_id for device in document.devices] == [device.bus_id for device in whole.devices]
    assert [(line, field) for line, field, _ in list_remarks(document)] == [(FIRST + 1, "name")]


def test_a_masked_index_costs_no_name() -> None:
    """The position counts, and the remark names the index."""
    document = nvidia_smi.parse(replace_in_line(TABLE, FIRST, "  0  ", "  *  "))

    assert document.devices == nvidia_smi.parse(TABLE).devices
    assert list_remarks(document) == [(FIRST + 1, "index", "*")]


def test_each_remark_names_its_cell() -> None:
    """N/A beside a masked value is no remark; equal rows have the lines of their own."""
    rows = [at for at, line in enumerate(TABLE.splitlines()) if line.startswith("| N/A")]
    text = TABLE
    for at in rows[:2]:
        power = re.search(r"\d+W / +\d+W", TABLE.split("\n")[at])
        assert power
        text = replace_in_line(text, at, power[0], "****")

    remarks = list_remarks(nvidia_smi.parse(text))

    assert remarks == [(at + 1, field, "****") for at in rows[:2] for field in ("power_w", "power_limit_w")]


def test_remarks_count_blank_lines() -> None:
    """The line is that of the text, however many blank lines are above it."""
    text = "a\n\n\n\n\nb\n\n\n" + replace_in_line(TABLE, FIRST, "00000000:", "xxxxxxxx:")

    assert [(line, field) for line, field, _ in list_remarks(nvidia_smi.parse(text))] == [(FIRST + 9, "bus_id")]


@pytest.mark.parametrize(("parse", "text"), [(nvidia_smi.parse, TABLE), (ixsmi.parse, IXSMI)], ids=["nvidia", "ixsmi"])
def test_two_damaged_cells_cost_no_device(parse: Callable[[str], Document], text: str) -> None:
    """Two cells of a row are masked or blank: the devices and the values of the other rows stay, none is wrong."""
    whole, lines = parse(text), text.split("\n")
    first = next(at for at, line in enumerate(lines) if "|=" in line) + 1
    for at, mask in itertools.product(range(first, first + 2), ("", "****", "ERR!")):
        bars = [place for place, sign in enumerate(lines[at]) if sign == "|"]
        for spans in itertools.combinations(itertools.pairwise(bars), 2):
            line = lines[at]
            for begin, end in spans:
                line = line[: begin + 1] + f" {mask}".ljust(end - begin - 1) + line[end:]
            document = parse("\n".join([*lines[:at], line, *lines[at + 1 :]]))

            assert len(document.devices) == len(whole.devices)
            assert document.devices[1:] == whole.devices[1:]
            for name, value in vars(document.devices[0]).items():
                assert value in (None, getattr(whole.devices[0], name))


@pytest.mark.parametrize("sign", [". ", "+", "> ", "+ "])
@pytest.mark.parametrize("which", ["all", "rows"])
def test_signs_before_the_bar(sign: str, which: str) -> None:
    """The marks of a diff, a quotation or a list before some or all lines are not part of the table."""
    lines = [sign + line if which == "all" or re.match(r"\| +\d", line) else line for line in TABLE.splitlines()]

    assert nvidia_smi.parse("\n".join(lines) + "\n").devices == nvidia_smi.parse(TABLE).devices


@pytest.mark.parametrize("word", HEAD_WORDS)
@pytest.mark.parametrize("kept", [0, 3])
def test_cut_words_of_the_head(word: str, kept: int) -> None:
    """A cut or lost word of the head costs no value, and makes no device."""
    text = TABLE.replace(word, word[:kept].ljust(len(word)), 1)

    assert nvidia_smi.parse(text).devices == nvidia_smi.parse(TABLE).devices


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [("|    3 ", "|    x ", "device"), ("/opt/conda/bin/python3.10", "*****", "name"), ("MiB", "***", "memory_mib")],
)
def test_a_masked_cell_costs_no_process(old: str, new: str, field: str) -> None:
    """The process stays, with a remark."""
    whole = nvidia_smi.parse(TABLE)
    at = next(at for at, line in enumerate(TABLE.split("\n")) if "python3.10" in line)

    document = nvidia_smi.parse(replace_in_line(TABLE, at, old, new))

    assert len(document.processes) == len(whole.processes)
    assert [(line, each) for line, each, _ in list_remarks(document)] == [(at + 1, field)]


@pytest.mark.parametrize("mask", ["*****", "", "xxx"])
def test_a_masked_process_id_costs_no_process(mask: str) -> None:
    """Its device, name and memory stay."""
    whole = nvidia_smi.parse(TABLE).processes
    at = next(at for at, line in enumerate(TABLE.split("\n")) if "python3.10" in line)

    document = nvidia_smi.parse(replace_in_line(TABLE, at, str(whole[0].pid), mask))

    assert vars(document.processes[0]) == {**vars(whole[0]), "pid": None}
    assert list_remarks(document) == [(at + 1, "pid", mask)]


def test_a_message_in_place_of_processes_is_none() -> None:
    """A sentence below the head of the processes is not a process."""
    at = next(at for at, line in enumerate(TABLE.split("\n")) if "python3.10" in line)
    lines = TABLE.split("\n")
    lines[at] = f"|    0      Not Supported{' ' * 66}|"

    assert nvidia_smi.parse("\n".join(lines)).processes == nvidia_smi.parse(TABLE).processes[1:]


def test_a_list_with_masks() -> None:
    """A masked name or UUID is None with a remark."""
    text = f"GPU 0: NVIDIA A100 (UUID: ****)\n\n\nGPU 1: *** (UUID: GPU-2c7c1f5e-1111-2222-3333-{'4' * 12})\n"

    document = nvidia_smi.parse(text)

    assert [(device.name, device.uuid is None) for device in document.devices] == [("NVIDIA A100", True), (None, False)]
    assert list_remarks(document) == [(1, "uuid", "****"), (4, "name", "***")]


def test_xml_with_masks() -> None:
    """A masked value is None; the remark has the line of its own device."""
    masked = re.sub(r"(.*<gpu_temp>)[^<]*", r"\1***", XML, flags=re.DOTALL)

    document = nvidia_smi.parse(masked)

    assert [device.temperature_c is None for device in document.devices] == [False, True]
    line = next(at for at, line in enumerate(masked.split("\n"), 1) if "***" in line)
    assert list_remarks(document) == [(line, "temperature_c", "***")]


@pytest.mark.parametrize(
    ("labels", "cell", "values"),
    [
        ("Fan Temp Perf Pwr:Usage/Cap", "N/A 40CP0 26W / 70W", {"temperature_c": "40C", "perf_state": "P0"}),
        ("Fan Temp Perf Pwr:Usage/Cap", "N/A 40C P026W / 70W", {"perf_state": "P0", "power_w": "26W"}),
        ("Clock-SM Clock-Mem", "1500MHz1200MHz", {"clock_sm_mhz": "1500MHz", "clock_memory_mhz": "1200MHz"}),
        ("GPU-Util Compute M.", "0%Default", {"utilization_percent": "0%", "compute_mode": "Default"}),
        ("Bus-Id Disp.A", "00000000:00:1E.0Off", {"bus_id": "00000000:00:1E.0", "display_active": "Off"}),
        ("Fan Temp Perf Pwr:Usage/Cap", "N/A 40C P126W / 70W", {"temperature_c": "40C", "power_limit_w": "70W"}),
    ],
)
def test_values_that_a_wrap_glued(labels: str, cell: str, values: dict[str, str | None]) -> None:
    """Two values without a blank between them are read if only one cut gives both the forms of their columns."""
    assert table_cells.read_cell(labels, cell).items() >= values.items()
