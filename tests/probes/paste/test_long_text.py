"""Texts of any length: each output is found, wherever the blocks end."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.paste import long_text
from probes.paste.paste_parser import load_parser, make_splitter, parse_paste

DATA = Path(__file__).parents[2] / "data"
TOOLS = {tool: load_parser(tool, importlib.import_module(module)) for tool, module in PARSERS.items()}
LOG = "2026-11-26 12:00:00 - INFO - step 10, loss: 1.234, lr: 1e-5\n"


def read_recording(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def cut_blocks(text: str, size: int) -> Iterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


@pytest.mark.parametrize("size", [997, 5000, 20_011, 60_000])
def test_outputs_in_a_long_log(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables in a log of forty times their size are the two documents that they are alone."""
    monkeypatch.setattr(long_text, "BLOCK", 20_000)
    tables = [read_recording("nvidia_smi/table/a100x8_535.txt"), read_recording("ixsmi/table/biv150_busy_430.txt")]
    log = LOG * 2000
    text = log + tables[0] + log + tables[1] + log

    kept, left_out = long_text.select_outputs(cut_blocks(text, size), make_splitter(TOOLS))
    found = parse_paste(kept, TOOLS)

    assert [part.devices for part in found.parts] == [parse_paste(table, TOOLS).devices for table in tables]
    assert left_out > 0 or size < long_text.BLOCK // 2  # short blocks are kept whole


def test_a_text_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a watch log without end, the last listings are kept."""
    monkeypatch.setattr(long_text, "BLOCK", 20_000)
    monkeypatch.setattr(long_text, "KEPT_LIMIT", 60_000)
    table = read_recording("nvidia_smi/table/a100x8_535.txt")

    kept, left_out = long_text.select_outputs(cut_blocks(table * 100, 20_000), make_splitter(TOOLS))

    assert len(kept) < 100_000
    assert left_out > 0
    assert parse_paste(kept, TOOLS).devices == parse_paste(table, TOOLS).devices
