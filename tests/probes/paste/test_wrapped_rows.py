"""Outputs that a terminal, a chat or a mail wrapped at one width give the documents that they give unwrapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.paste.host_marks import HostText
from probes.paste.paste_parser import make_splitter, parse_paste
from probes.paste.wrapped_lines import join_wrapped_lines
from probes.paste.wrapped_rows import RowJoiner
from tests.probes.paste.test_paste_parser import DATA, RECORDINGS, TOOLS, without_place

SPLITTER = make_splitter(TOOLS)
OWN = [file for file in RECORDINGS if file.is_relative_to(DATA)]
WIDTHS = (80, 100, 120)
# Recording → manner: its text does not tell it.
UNDECIDED = {
    ("bars_lost", "column"): "a bar alone is the rest of one line",
    ("bars_lost", "blank"): "a bar alone is the rest of one line",
    ("a100x8_535_in_a_log", "blank"): "its escapes count for the width, but are not seen",
    ("watch-950-10-columns", "blank"): "only the head was wrapped",
    ("nv-accounted-590-h200", "blank"): "the first row of CSV ends at the width of its head",
    ("nv-query-595-l40s", "blank"): "a year alone is the rest of one line",
    ("nv-topo-a100x8-nv12-nic10-tabs", "blank"): "rows below others are as wide as these",
    # A value of XML keeps the line break that is in it.
    ("a100x2_v12", "blank"): "XML",
    ("a100x2_v12_cut", "blank"): "XML",
    ("a100x2_v12_in_a_session", "blank"): "XML",
    ("p800_one_line", "blank"): "XML",
}


def cut_line(line: str, width: int, *, at_blank: bool) -> Iterator[str]:
    """Yield the pieces of a line; a tab goes to the next column of eight."""
    start = column = blank = 0
    for at, character in enumerate(line):
        step = 8 - column % 8 if character == "\t" else 1
        if column + step > width:
            end = blank if at_blank and blank > start else at
            yield line[start:end]
            start, column = end, len(line[end:at].expandtabs())
            step = 8 - column % 8 if character == "\t" else 1
        column += step
        blank = at + 1 if character in " \t" else blank
    yield line[start:]


def wrap_text(text: str, width: int, *, at_blank: bool) -> str:
    return "\n".join(piece for line in text.split("\n") for piece in cut_line(line, width, at_blank=at_blank))


def list_differing(files: list[Path], width: int, manner: str) -> list[str]:
    differing = []
    for file in files:
        text = file.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
        wrapped = wrap_text(text, width, at_blank=manner == "blank")
        if wrapped != text and (file.stem, manner) not in UNDECIDED:
            plain, found = (parse_paste(each, TOOLS, splitter=SPLITTER) for each in (text, wrapped))
            if list(map(without_place, found.parts or (found,))) != list(map(without_place, plain.parts or (plain,))):
                differing.append(file.name)
    return differing


@pytest.mark.parametrize("manner", ["column", "blank"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_wrap_changes_no_document(width: int, manner: str) -> None:
    assert list_differing(OWN, width, manner) == []


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["column", "blank"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_wrap_changes_no_document_of_any_recording(width: int, manner: str) -> None:
    assert list_differing(RECORDINGS, width, manner) == []


TABLES = (
    "nvidia_smi/table/a100x8_535.txt",
    "npu_smi/info/310p_duo_no_hbm.txt",
    "npu_smi/info/910b_sparse_ids.txt",
    "npu_smi/info/950_own_cells.txt",
    "xpu_smi/table/p800_watch.txt",
)


@pytest.mark.parametrize("manner", ["column", "blank"])
@pytest.mark.parametrize("width", [40, 50, 60, 72])
@pytest.mark.parametrize("name", TABLES)
def test_devices_of_narrow_tables(name: str, width: int, manner: str) -> None:
    """On a telephone, or in a column of a page."""
    text = (DATA / name).read_text(encoding="utf-8")
    plain = parse_paste(text, TOOLS, splitter=SPLITTER)

    assert parse_paste(wrap_text(text, width, at_blank=manner == "blank"), TOOLS, splitter=SPLITTER).devices == (
        plain.devices
    )


@pytest.mark.parametrize("file", OWN, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_lines_that_were_not_wrapped_stay(file: Path) -> None:
    """A recording is not wrapped, unless its name tells so: no two of its lines are one."""
    lines = file.read_bytes().decode("utf-8", "replace").split("\n")

    found = RowJoiner(lines, SPLITTER.begins_output, SPLITTER.is_command).find_lines()

    assert not found or "wrapped" in file.stem


def join(lines: list[str]) -> list[str]:
    return join_wrapped_lines(HostText("", lines, range(1, len(lines) + 1))).lines


def test_a_border_in_pieces_tells_the_width_of_rows() -> None:
    lines = ["-" * 50, "-" * 9, "| DevID |" + " " * 40 + "|", "  Model |", "-" * 50, "-" * 9]

    assert join(lines) == ["-" * 59, "| DevID |" + " " * 40 + "|  Model |", "-" * 59]


def test_borders_of_several_tables_are_no_pieces() -> None:
    lines = ["-" * 90, "| DevID | Model |", "-" * 90, "  PROCESSES", "-" * 49, "| DevID | PID |", "-" * 49]

    assert join(lines) == lines


def test_pieces_of_a_row_are_joined_up_to_the_width_of_the_border() -> None:
    """Thousands of pieces of one row do not make one row that grows with each."""
    lines = ["-" * 60, "-" * 10, "|a|", *[f" {'x' * 38}|"] * 2000]

    assert max(map(len, join(lines))) < 200


def test_a_command_goes_on_with_its_options() -> None:
    """A word wrap leaves options alone on a line, however short the command is."""
    command = ["$ nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    rows = ["NVIDIA A100-SXM4-80GB, 81920 MiB"] * 2

    found = parse_paste("\n".join([*command, *rows, ""]), TOOLS)

    assert [(each.name, each.memory_total_mib) for each in found.devices] == [("NVIDIA A100-SXM4-80GB", 81920)] * 2


@pytest.mark.parametrize(
    "lines",
    [
        ["Failed to initialize NVML: Driver/library version mismatch", "NVML library version: 550.54"],
        ["GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)", "  MIG 1g.10gb     Device  0: (UUID: MIG-0a1b2c3d)"] * 4,
        [
            "NPU ID   Chip ID   Chip Logic ID   Name",
            *["1        0         0               Ascend910B3", "1  1  -  Mcu"] * 4,
        ],
    ],
    ids=["two messages", "a list in pairs", "a map in pairs"],
)
def test_pairs_of_lines_stay(lines: list[str]) -> None:
    """A longer line above a shorter one is not yet a wrapped line."""
    found = RowJoiner(lines, SPLITTER.begins_output, SPLITTER.is_command).find_lines()

    assert found == []


def test_rows_beyond_a_gap_are_of_another_table() -> None:
    """The width of a wrapped border counts for the rows of its own block of lines, above and below it."""
    wrapped = ["-" * 60, "-" * 40, f"| a{' ' * 57}|", f"{' ' * 20}b |", "-" * 60, "-" * 40]
    others = [f"| {at} | 0000:3{at}:00.0 | P800 |" for at in range(3)]
    joined = ["-" * 100, f"| a{' ' * 57}|{' ' * 20}b |", "-" * 100]

    assert join([*wrapped, "", *others]) == [*joined, "", *others]
    assert join([*others, "", *wrapped]) == [*others, "", *joined]
