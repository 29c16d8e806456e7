"""Topologies with network cards, watch logs without ids, and answers whose lines were glued or spaced."""

from __future__ import annotations

import time

import pytest

from envcheck.core.model import CellRemark
from probes.ascend import npu_page, npu_smi
from tests.probes.ascend.npu_texts import TABLE

TOPOLOGY = """\
            NPU0       NPU1       {0}       {1}       CPU Affinity
NPU0        X          HCCS       PIX       SYS       0-23
NPU1        HCCS       X          SYS       PIX       24-47
{0}         PIX        SYS        X         SYS
{1}         SYS        PIX        SYS       X

Legend:

  X    = Self
"""
ERROR = """\
NPU ID                         : 1
Health Status                  : Alarm
Error Code                     : 80E01801
Error Information              : first
                               : second
"""
WATCH = """\
Pwr(W)      Temp(C)     AI Core(%)
290.4       51          0
***         52          3
"""


@pytest.mark.parametrize("cards", [("NIC0", "NIC1"), ("mlx5_0", "mlx5_1"), ("enp1s0f0", "ib0")])
def test_network_cards_in_a_topology(cards: tuple[str, str]) -> None:
    topology = npu_smi.parse(TOPOLOGY.format(*cards)).topology

    assert topology is not None
    assert (topology.devices, topology.nics) == (("NPU0", "NPU1"), cards)
    assert topology.matrix["NPU1"] == {"NPU0": "HCCS", "NPU1": "X", cards[0]: "SYS", cards[1]: "PIX"}
    assert topology.matrix[cards[0]]["NPU0"] == "PIX"
    assert topology.cpu_affinity == {"NPU0": "0-23", "NPU1": "24-47"}


def test_watch_without_ids() -> None:
    document = npu_smi.parse(WATCH)

    assert document.kind == "watch"
    assert document.detail["rows"] == [
        {"Pwr(W)": 290.4, "Temp(C)": 51, "AI Core(%)": 0},
        {"Pwr(W)": None, "Temp(C)": 52, "AI Core(%)": 3},
    ]
    assert document.remarks == (CellRemark(3, "Pwr(W)", "***"),)


def test_glued_lines() -> None:
    """Two lines that a terminal glued are two values."""
    detail = npu_smi.parse(ERROR.replace("Alarm\n", "Alarm")).detail

    assert (detail["health"], detail["error_codes"]) == ("Alarm", ["80E01801"])


def test_values_continue_over_blank_lines() -> None:
    spaced = npu_smi.parse(ERROR.replace("\n", "\n\n")).detail
    single = npu_smi.parse(ERROR.replace("first\n", "first\n\n")).detail

    assert spaced["error_information"] == single["error_information"] == ["first", "second"]


def test_a_wrapped_table_with_blank_lines() -> None:
    lines = [line[at : at + 80] for line in TABLE.splitlines() for at in range(0, len(line), 80)]

    assert [device.npu for device in npu_smi.parse("\n\n".join(lines)).devices] == [0, 1]


def test_boards_carry_their_device() -> None:
    board = "NPU ID           : {}\nSoftware Version : 24.1\nPCB ID           : A\n"

    blocks = npu_smi.parse(board.format(1) + board.format(7)).detail["blocks"]

    assert [block["npu"] for block in blocks] == [1, 7]


def test_blanks_in_a_legend_are_tried_once() -> None:
    """A line of a legend takes time that grows with its blanks, not with their square."""
    took = []
    for length in (900, 3_600):
        lines = f"SYS = a{' ' * length}b\n" * (144_000 // length)
        began = time.thread_time()
        npu_smi.parse(f"       NPU0   NPU1\nNPU0   X      HCCS\nNPU1   HCCS   X\n\nLegend:\n{lines}")
        took.append(time.thread_time() - began)

    assert took[1] < 2 * took[0] + 0.1


def test_blanks_behind_a_prompt_are_tried_once() -> None:
    """Blanks behind a prompt without its sign take time that grows with their number, not with its square."""
    took = []
    for length in (500, 2_000):
        began = time.thread_time()
        for _ in range(40_000 // length):
            npu_page._COMMAND.fullmatch(f"[a]{' ' * length}, npu-smi")
        took.append(time.thread_time() - began)

    assert took[1] < 2 * took[0] + 0.1
