"""The work for a text of any kind grows with its size, not with its square: calls are counted, no time is measured."""

from __future__ import annotations

import cProfile
import importlib

import pytest

from benchmarks.parse import KINDS
from envcheck.cli.commands.parse import PARSERS
from probes.paste.paste_parser import load_parser, parse_paste

TOOLS = {tool: load_parser(tool, importlib.import_module(module)) for tool, module in PARSERS.items()}
SMALL, TIMES = 20_000, 4
MOST = 1.6  # of the calls for four times the text; four times as many if quadratic


def count_calls(text: str) -> int:
    profile = cProfile.Profile()
    profile.enable()
    parse_paste(text, TOOLS)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_work_is_linear(kind: str) -> None:
    """Four times the text needs about four times the calls, for each kind of the benchmark."""
    parse_paste(KINDS[kind](SMALL * TIMES), TOOLS)  # compiles the patterns

    small, large = (count_calls(KINDS[kind](size)) for size in (SMALL, SMALL * TIMES))

    assert large < MOST * TIMES * max(small, 1000)
