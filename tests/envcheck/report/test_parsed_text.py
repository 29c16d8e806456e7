"""A parsed output as a person reads it on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

from envcheck.cli.commands.parse import load_parsers
from envcheck.core.model import Document
from envcheck.report.parsed_text import render_document
from probes.paste.paste_parser import parse_paste

DATA = Path(__file__).parents[2] / "data"


def render_text(text: str) -> str:
    return "\n".join(render_document(parse_paste(text, load_parsers())))


def read_recording(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_a_listing_is_a_table() -> None:
    """A head, a row for each device, only columns with values, and the processes."""
    shown = render_text(read_recording("nvidia_smi/table/a100x8_535.txt"))

    assert shown.splitlines()[0] == "nvidia-smi: table, version 535.104.05, driver 535.104.05, CUDA 12.2"
    assert "NVIDIA A100-SXM4-80GB" in shown
    assert "28 / 81920 MiB" in shown
    assert "health" not in shown
    assert "/opt/conda/bin/python3.10" in shown


def test_of_repeated_listings_the_last_one() -> None:
    """A watch log shows one table, and a line for each output before it."""
    text = read_recording("ixsmi/table/biv150_busy_430.txt")
    shown = render_text(text * 3)

    assert shown.count("output ") == 3
    assert shown.count("bus id") == 1


def test_other_kinds_show_their_values() -> None:
    """A topology is a matrix, an error has its fix, fields are a list."""
    assert "PIX" in render_text(read_recording("ixsmi/topo/flat_pix.txt"))
    assert "Install the driver" in render_text("bash: npu-smi: command not found\n").replace("install", "Install")
    assert "Health Status" in render_text("\tNPU ID  : 3\n\tHealth Status  : OK\n")


def test_what_was_not_read_is_listed() -> None:
    text = read_recording("nvidia_smi/table/a100x8_535.txt").replace("00000000:07:00.0", "xxxxxxxx:xx:xx.x")

    assert "bus_id: xxxxxxxx:xx:xx.x" in render_text(text)


def test_a_column_that_cannot_be_read_is_shown() -> None:
    """A question mark tells that the output has the column; without it the value would look absent."""
    text = re.sub(r"00000000:..:00\.0", "xxxxxxxx:xx:xx.x", read_recording("nvidia_smi/table/a100x8_535.txt"))

    assert "bus id" in render_text(text)


def test_blocks_are_rows() -> None:
    """Each block of an answer for several chips is a row; what the heads or the command say is not repeated."""
    shown = render_text(read_recording("npu_smi/common/two_chips_and_mcu.txt")).splitlines()

    heads = next(line for line in shown if "Temperature(C)" in line)
    assert heads.split()[:2] == ["npu", "chip"]
    assert [line.split()[:2] for line in shown[shown.index(heads) + 1 :]] == [["12", "0"], ["12", "1"], ["12", "50"]]
    assert not any("from_command" in line or "blocks" in line for line in shown)


def test_samples_are_rows_with_units() -> None:
    shown = render_text(read_recording("nvidia_smi/dmon/with_time.txt"))

    assert "pwr (W)" in shown
    assert "columns" not in shown


def test_records_that_are_too_wide_are_lists() -> None:
    """A record of a single row, or one wider than the screen, has a line for each value."""
    fields = {f"An uncommonly long name of a value {number}": number for number in range(6)}
    wide = Document("npu-smi", "board", detail={"blocks": [{"npu": npu, "fields": fields} for npu in (1, 2)]})
    shown = list(render_document(wide))

    assert len([line for line in shown if "of a value 5" in line]) == 2
    assert max(map(len, shown)) < 100


def test_a_text_of_no_known_tool() -> None:
    assert not render_text(read_recording("xpu_smi/unknown/intel_stats.txt")).startswith(":")


def test_a_value_above_records_is_left_out_only_if_each_has_it() -> None:
    def render(detail: dict[str, object]) -> list[list[str]]:
        return [line.split() for line in render_document(Document("npu-smi", "board", detail=detail))][1:]

    blocks = [{"npu": 7, "chip": 0}, {"npu": 7, "chip": 1}]

    assert render({"npu": 7, "blocks": blocks})[0] == ["npu", "chip"]
    assert ["chip", "5"] in render({"chip": 5, "blocks": blocks})
    assert render({"blocks": [{}, {}]}) == []
    assert ["a", "b"] in render({"columns": ["a"], "units": [None], "rows": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]})
