"""Rows of `npu-smi info` with masked and blank cells: the device stays, the value is null, and a remark names it."""

from __future__ import annotations

import time

import pytest

from envcheck.core.model import CellRemark, Device
from probes.ascend import npu_smi
from tests.probes.ascend.npu_texts import FIRST, HEAD, OTHER, PROCESSES, RULE, SECOND, TABLE, damage_table

INTACT = npu_smi.parse(TABLE).devices[0]


def parse_first(*damages: tuple[str, str]) -> tuple[Device, list[tuple[int, str, str]]]:
    """Return the first of the two devices, and the remarks."""
    document = npu_smi.parse(damage_table(*damages))

    assert (len(document.devices), document.devices[1].npu, document.truncated) == (2, 1, False)
    return document.devices[0], [(remark.line, remark.field, remark.text) for remark in document.remarks]


@pytest.mark.parametrize("mask", ["****", "xxxx", "ERR!", "未知", "", "#####"])
def test_two_damaged_cells_of_a_row(mask: str) -> None:
    device, remarks = parse_first(("OK", mask), ("101.8", mask))

    assert (device.health, device.power_w) == (None, None)
    assert (device.npu, device.name, device.temperature_c, device.memory_used_mib) == (0, "910B3", 43, 3318)
    assert [field for _, field, _ in remarks] == ["health", "power_w"]


@pytest.mark.parametrize("mask", ["****", "xxxx", "ERR!"])
def test_a_row_of_masks(mask: str) -> None:
    """Even a row without any value costs only its own values."""
    masked = (
        f"| {mask}                      | {mask}          | {mask}        {mask}          {mask} / {mask}         |\n"
    )

    above = npu_smi.parse(TABLE.replace(FIRST, masked)).devices[0]
    below = npu_smi.parse(TABLE.replace(SECOND, masked)).devices[0]

    assert (above.npu, above.chip, above.bus_id, above.memory_total_mib) == (None, 0, "0000:C1:00.0", 65536)
    assert (below.npu, below.chip, below.bus_id, below.memory_total_mib) == (0, None, None, None)


def test_a_damaged_heading_is_no_device() -> None:
    """A header row with words that nobody knows is not data, nor is one without any word in ASCII."""
    second = HEAD.splitlines(keepends=True)[-1]
    chinese = "| 芯片                      | 总线          | 算力        内存              显存                 |\n"
    masked = "| ****                      | ******        | *********   ****************  *************        |\n"

    for heading in (second.replace("AICore(%)", "*********"), second.replace("Bus-Id", "******"), chinese, masked):
        document = npu_smi.parse(TABLE.replace(second, heading))
        assert [(device.npu, device.bus_id) for device in document.devices] == [
            (0, "0000:C1:00.0"),
            (1, "0000:C2:00.0"),
        ]
        assert not document.remarks
        assert not document.detail["partial_chips"]


def test_second_row_without_the_first() -> None:
    """A damaged second row does not become the first row of a device."""
    document = npu_smi.parse(HEAD + RULE + SECOND.replace("0000:C1:00.0", "***") + RULE + OTHER + RULE)

    assert [(device.npu, device.bus_id) for device in document.devices] == [(1, "0000:C2:00.0")]


def test_first_row_without_the_second() -> None:
    """A device counts once its first row is whole."""
    document = npu_smi.parse(HEAD + RULE + FIRST + RULE + OTHER.replace("OK", "**") + RULE)

    assert [(device.npu, device.bus_id) for device in document.devices] == [(0, None), (1, "0000:C2:00.0")]
    assert document.truncated


@pytest.mark.parametrize("left", range(1, len(SECOND) - 1))
def test_second_row_cut_anywhere(left: int) -> None:
    """The complete cells of a row that is cut count."""
    document = npu_smi.parse(HEAD + RULE + FIRST + SECOND[:left].rstrip("\n"))

    (device,) = document.devices
    assert (device.npu, device.name, device.chip) == (0, "910B3", 0 if SECOND[:left].count("|") > 1 else None)
    assert document.truncated


def test_masked_processes() -> None:
    rows = """\
| ***     0                 | 1235          | python                   | 3000                    |
| 1       0                 | ****          | ****                     | ***                     |
"""
    document = npu_smi.parse(TABLE + PROCESSES + rows + RULE)

    assert [(each.device, each.chip, each.pid, each.name) for each in document.processes] == [
        (0, 0, 1234, "python"),
        (None, 0, 1235, "python"),
        (1, 0, None, None),
    ]
    assert [(remark.line, remark.field) for remark in document.remarks] == [
        (17, "npu"),
        (18, "pid"),
        (18, "name"),
        (18, "memory_mib"),
    ]


def test_masked_memory_is_not_the_other_memory() -> None:
    device, remarks = parse_first(("3318 / 65536", "**** / *****"))

    assert (device.memory_used_mib, device.memory_total_mib) == (None, None)
    assert (device.ddr_used_mib, device.ddr_total_mib) == (1, 2)
    assert remarks == [(8, "memory_used_mib", "**** / *****")]


@pytest.mark.parametrize(
    ("damaged", "used", "total", "field"),
    [
        ("3318 / *****", 3318, None, "memory_total_mib"),
        ("**** / 65536", None, 65536, "memory_used_mib"),
        ("     / 65536", None, 65536, "memory_used_mib"),
    ],
)
def test_half_a_pair(damaged: str, used: int | None, total: int | None, field: str) -> None:
    device, remarks = parse_first(("3318 / 65536", damaged))

    assert (device.memory_used_mib, device.memory_total_mib) == (used, total)
    assert (device.ddr_used_mib, device.ddr_total_mib) == (1, 2)
    assert [name for _, name, _ in remarks] == [field]


@pytest.mark.parametrize(
    ("printed", "damaged", "lost"),
    [
        ("| 0     910B3", "|       910B3", {"npu"}),
        ("| 0     910B3", "| 0          ", {"name"}),
        ("101.8       43", "101.8         ", {"temperature_c"}),
        ("101.8       43", "            43", {"power_w"}),
        ("7           1    / 2", "            1    / 2", {"utilization_percent"}),
        ("1    / 2   ", "           ", {"ddr_used_mib", "ddr_total_mib"}),
        ("5    / 9", "        ", {"hugepages_used", "hugepages_total"}),
    ],
)
def test_blank_cells_are_null(printed: str, damaged: str, lost: set[str]) -> None:
    """A value is neither taken from the column beside it, nor cut from it."""
    device, remarks = parse_first((printed, damaged))

    assert {name for name in vars(INTACT) if getattr(device, name) != getattr(INTACT, name)} == lost
    assert {getattr(device, name) for name in lost} == {None}
    assert len(remarks) == 1


@pytest.mark.parametrize("collapsed", [False, True])
def test_a_name_of_digits_without_its_id(collapsed: bool) -> None:
    """The place of a lone number tells whether it is the id or the name; where blanks were lost, nothing does."""
    name = damage_table(("| 0     910B3", "|       310  "))
    text = "\n".join(" ".join(line.split()) for line in name.split("\n")) if collapsed else name

    device = npu_smi.parse(text).devices[0]

    assert (device.npu, device.name) == (None, None if collapsed else "310")


@pytest.mark.parametrize("mask", ["***", "xxxx", "<masked>", "ERR!"])
def test_a_mask_is_no_name(mask: str) -> None:
    device, remarks = parse_first(("910B3   ", mask), ("OK      ", mask))

    assert (device.npu, device.name, device.health) == (0, None, None)
    assert remarks == [(7, "name", mask), (7, "health", mask)]


@pytest.mark.parametrize(
    "crash", ["Segmentation fault (core dumped)", "Killed", "bash: line 1: 77 Aborted npu-smi", "段错误"]
)
def test_a_crash_below_the_table(crash: str) -> None:
    table = HEAD + RULE + FIRST + SECOND + RULE

    assert npu_smi.parse(f"{table}{crash}\n").truncated
    assert not npu_smi.parse(f"{table}[root@node ~]# dmesg\n{crash}\n").truncated


def test_lines_of_remarks() -> None:
    """They count from 1 in the text given, also below a command and a blank line."""
    text = "intro\n\n$ npu-smi info\n" + damage_table(("OK", "**"))

    assert npu_smi.parse(text).remarks == (CellRemark(10, "health", "**"),)


def test_many_masked_rows_take_linear_time() -> None:
    rows = 2000
    masked = FIRST.replace("OK", "**") + SECOND.replace("0000:C1:00.0", "xxxx:C1:00.0") + RULE

    start = time.process_time()
    document = npu_smi.parse(HEAD + RULE + masked * rows)

    assert (len(document.devices), document.remarks[-1].line) == (rows, 6 + 3 * rows - 1)
    assert time.process_time() - start < 4  # 15 s where each remark searched the whole text


@pytest.mark.parametrize("health", ["Alarm", "Warning", "Critical", "***"])
def test_rows_without_a_heading(health: str) -> None:
    """The output of grep: the rows' form tells what they are, not the word OK."""
    document = npu_smi.parse(FIRST.replace("OK    ", health.ljust(6)) + SECOND)

    assert [(device.npu, device.health, device.memory_total_mib) for device in document.devices] == [
        (0, None if health == "***" else health, 65536)
    ]
    assert document.truncated


def test_other_tables_are_no_output() -> None:
    assert npu_smi.parse("| 0 abc | word | 1 2 |\n| 1 abc | word | 1 2 |\n").kind == "unknown"


def test_a_heading_that_was_cut() -> None:
    """The rows show the column that their heading lost."""
    document = npu_smi.parse(TABLE.replace("HBM-Usage(MB)", "             "))

    assert [(device.memory_used_mib, device.ddr_total_mib) for device in document.devices] == [(3318, 2), (3314, 0)]
    assert document.truncated


@pytest.mark.parametrize("prefix", [". ", "+", "-", "> ", "+ "])
def test_lines_of_a_diff_or_a_quote(prefix: str) -> None:
    text = "".join(prefix + line for line in damage_table(("OK", "**")).splitlines(keepends=True))

    document = npu_smi.parse(text)

    assert ([device.npu for device in document.devices], document.truncated) == ([0, 1], False)
    assert [remark.line for remark in document.remarks] == [7]


def test_rows_without_the_left_bar() -> None:
    whole = TABLE + PROCESSES + RULE
    document = npu_smi.parse("".join(line[line[0] == "|" :] for line in whole.splitlines(keepends=True)))

    assert [(device.npu, device.bus_id) for device in document.devices] == [(0, "0000:C1:00.0"), (1, "0000:C2:00.0")]
    assert [process.pid for process in document.processes] == [1234]


@pytest.mark.parametrize("joint", ["<br>", "<br/>\n"])
def test_rows_joined_by_line_breaks_of_html(joint: str) -> None:
    document = npu_smi.parse((HEAD + (RULE + FIRST + SECOND) * 20).replace("\n", joint))

    assert len(document.devices) == 20


def test_glued_heading() -> None:
    document = npu_smi.parse(TABLE.replace("NPU   Name", "NPUName   "))

    assert [(device.npu, device.name) for device in document.devices] == [(0, "910B3"), (1, "910B3")]
    assert not document.truncated
