"""Lines that a terminal wrapped: of CSV and of XML on one line they are joined before the outputs are split."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.paste.host_marks import HostText
from probes.paste.paste_parser import parse_paste
from probes.paste.wrapped_lines import join_wrapped_lines
from tests.probes.paste.test_paste_parser import TOOLS, read_recording, without_place

RECORDINGS = (
    "ixsmi/csv/many_fields.csv",
    "nvidia_smi/csv/unknown_new_fields_cut.csv",
    "nvidia_smi/csv/no_head_with_command.csv",
    "nvidia_smi/query_text/a100_525_cut.txt",
    "nvidia_smi/query_text/a100_mig_525.txt",
    "xpu_smi/xml/p800_one_line.xml",
    "npu_smi/lspci/numbers_and_strangers.txt",
)
HEAD = "index, name, uuid, memory.used [MiB], memory.total [MiB], utilization.gpu [%], power.draw [W]"
ROW = "{0}, Tesla V100-SXM2-32GB, GPU-11111111-2222-3333-4444-55555555555{0}, 3 MiB, 32510 MiB, 0 %, 41.20 W"
COMMAND = "$ nvidia-smi --query-gpu=index,name,uuid,memory.used,memory.total,utilization.gpu --format=csv,noheader"
CELLS = "{0}, Tesla V100-SXM2-32GB, GPU-11111111-2222-3333-4444-55555555555{0}, 3 MiB, 32510 MiB, 0 %"
APPS_HEAD = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
APPS_ROW = "GPU-11111111-2222-3333-4444-55555555555{0}, 471{0}, /opt/train/bin/python, 20480 MiB"


def wrap_lines(text: str, width: int) -> str:
    return "".join(f"{line[at : at + width]}\n" for line in text.splitlines() for at in range(0, len(line) or 1, width))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", RECORDINGS, ids=[Path(name).stem for name in RECORDINGS])
def test_a_wrap_changes_nothing(name: str, width: int) -> None:
    text = read_recording(name)
    plain = parse_paste(text, TOOLS)

    found = parse_paste(wrap_lines(text, width), TOOLS)

    assert list(map(without_place, found.parts or (found,))) == list(map(without_place, plain.parts or (plain,)))


@pytest.mark.parametrize("width", range(40, 104, 3))
@pytest.mark.parametrize(("head", "row"), [(HEAD, ROW), (COMMAND, CELLS)], ids=["head", "command"])
def test_the_pieces_of_heads_commands_and_rows(head: str, row: str, width: int) -> None:
    """Whatever the width: a cut within a word, behind a comma, within the option of the format."""
    lines = [head, *(row.format(at) for at in range(3)), "", "$ uptime", " 10:00:00 up 3 days"]
    given = HostText("", wrap_lines("\n".join(lines), width).splitlines(), range(1, 100))

    assert join_wrapped_lines(given).lines == lines


@pytest.mark.parametrize("width", [70, 73, 77, 78])
def test_a_last_cell_without_its_unit_goes_on_below(width: int) -> None:
    """A head that fits tells no width; the unit of the last cell does."""
    lines = [APPS_HEAD, *(APPS_ROW.format(at) for at in range(2))]
    wrapped = wrap_lines("\n".join(lines), width).splitlines()

    assert len(wrapped) == 5
    assert join_wrapped_lines(HostText("", wrapped, range(1, 6))).lines == lines


def test_lines_keep_their_numbers() -> None:
    """A joined line has the number of its first piece."""
    wrapped = ["before", *wrap_lines(f"{HEAD}\n{ROW.format(0)}", 60).splitlines(), "", "after"]

    joined = join_wrapped_lines(HostText("node1", wrapped, range(11, 18)))

    assert joined.host == "node1"
    assert list(zip(joined.numbers, joined.lines, strict=True)) == [
        (11, "before"),
        (12, HEAD),
        (14, ROW.format(0)),
        (16, ""),
        (17, "after"),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [HEAD, *(ROW.format(at) for at in range(3))],
        [COMMAND, *(CELLS.format(at) for at in range(3))],
        ["gpu_name, driver_version, memory.total [MiB]", "No devices were found", "2, 3", "4, 5"],
        [
            "pid, process_name, used_memory, gpu_uuid, gpu_name",
            "",
            "GPU0\tX\tNV1\t" * 4,
            "0-27, 56-83, 112-139, 140, 1",
        ],
        ["first, second", "third, fourth"] * 20,
    ],
    ids=["rows of one length", "below a command", "other lines", "another output", "words"],
)
def test_whole_lines_stay(lines: list[str]) -> None:
    given = HostText("", lines, range(1, len(lines) + 1))

    assert join_wrapped_lines(given) is given


DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
    0    294     81      -     98     57      0      0      0      0  13365   1897
    1    292     68      -     99     55      0      0      0      0  13365   2017
"""
LEGEND = "\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
GPUS = "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n\nLegend:\n"
NPUS = "       NPU0       NPU1\nNPU0   X          SYS\nNPU1   SYS        X\n\nLegend:\n"


@pytest.mark.parametrize("text", [DMON, GPUS + LEGEND, NPUS + LEGEND], ids=["dmon", "GPUs", "NPUs"])
@pytest.mark.parametrize("width", [42, 60, 80])
def test_rows_and_legends(text: str, width: int) -> None:
    """Rows of a monitor and the meaning of words go on below a full line."""
    plain = parse_paste(text, TOOLS)

    assert plain.kind in ("dmon", "topo")
    assert without_place(parse_paste(wrap_lines(text, width), TOOLS)) == without_place(plain)


def test_rows_of_one_length_stay_apart() -> None:
    """Below a head that fits, a shorter line is no piece of a row."""
    found = parse_paste(f"{DMON}^C\n", TOOLS)

    assert found.detail["rows"] == parse_paste(DMON, TOOLS).detail["rows"]


def test_the_end_of_a_tag_is_no_quote() -> None:
    """A wrap before the sign that ends a tag leaves a line that begins like a quote."""
    text = read_recording("nvidia_smi/xml/a100x2_v12.xml")
    tag = "</product_name>"

    found = parse_paste(text.replace(tag, f"{tag[:-1]}\n>", 1), TOOLS)

    assert found.devices == parse_paste(text, TOOLS).devices
