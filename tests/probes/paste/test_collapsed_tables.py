"""Tables whose line breaks a paste lost: the borders tell where the rows are."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.paste.collapsed_tables import expand_collapsed_rows
from probes.paste.paste_parser import load_parser, parse_paste

DATA = Path(__file__).parents[2] / "data"
TOOLS = {tool: load_parser(tool, importlib.import_module(module)) for tool, module in PARSERS.items()}
TABLES = (
    "nvidia_smi/table/a100x8_535.txt",
    "npu_smi/info/310p_duo_no_hbm.txt",
    "npu_smi/info/950_own_cells.txt",
    "ixsmi/table/biv150_busy_430.txt",
    "xpu_smi/table/old_k200_error_state.txt",
)


@pytest.mark.parametrize("blanks", ["kept", "joined"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_on_one_line_has_its_devices(name: str, blanks: str) -> None:
    """A table has the same devices and processes if blanks stand in place of its line breaks, also single ones."""
    text = (DATA / name).read_text(encoding="utf-8")
    whole = parse_paste(text, TOOLS)

    collapsed = parse_paste(" ".join(text.split()) if blanks == "joined" else text.replace("\n", " "), TOOLS)

    assert whole.devices
    assert collapsed.devices == whole.devices
    assert collapsed.processes == whole.processes


@pytest.mark.parametrize("line", ["x" * 1000, "| a | b " * 60, "+---+ and +---+ " * 40 + "| a |"])
def test_other_long_lines_keep_their_words(line: str) -> None:
    """A long line without a table keeps its words in order."""
    assert " ".join(expand_collapsed_rows([line])).split() == line.split()
