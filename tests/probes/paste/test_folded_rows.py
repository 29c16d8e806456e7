"""Rows with a prefix that were folded at a fixed width are joined before the prefix is taken off."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.paste.folded_rows import join_folded_rows
from probes.paste.paste_parser import load_parser, parse_paste

DATA = Path(__file__).parents[2] / "data"
TOOLS = {tool: load_parser(tool, importlib.import_module(module)) for tool, module in PARSERS.items()}


def fold_lines(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))


@pytest.mark.parametrize("prefix", ["node1: ", "[1,0]<stdout>: ", "2026-11-26 12:00:00 "])
@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", ["nvidia_smi/table/a100x8_535.txt", "npu_smi/info/310p_duo_no_hbm.txt"])
def test_folded_rows_with_a_prefix(name: str, width: int, prefix: str) -> None:
    """The devices are those of the table."""
    text = (DATA / name).read_text(encoding="utf-8")
    prefixed = "\n".join(prefix + line for line in text.split("\n"))

    assert parse_paste(fold_lines(prefixed, width), TOOLS).devices == parse_paste(text, TOOLS).devices


def test_whole_rows_stay() -> None:
    """A text that was not folded, or whose rows have no prefix, is not changed."""
    text = (DATA / "nvidia_smi/table/a100x8_535.txt").read_text(encoding="utf-8")
    prefixed = "\n".join(f"node1: {line}" for line in text.split("\n"))

    assert join_folded_rows(prefixed) == prefixed
    assert join_folded_rows(fold_lines(text, 60)) == fold_lines(text, 60)
