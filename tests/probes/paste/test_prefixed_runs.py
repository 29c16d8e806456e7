"""Prefixes of lines that stand alone in a text with other lines."""

from __future__ import annotations

import pytest

from probes.paste.marked_lines import fold_digits
from probes.paste.output_forms import FirstLine, OutputForms
from probes.paste.prefixed_runs import list_prefixes
from probes.paste.text_parts import PARTS_LIMIT, PartSplitter

STARTS = (FirstLine("list", r"GPU 0: \w+", ("GPU",), repeats=True), FirstLine("key", r"NPU ID : \d", ("NPU ID",)))
SPLITTER = PartSplitter({"smi": OutputForms("smi", STARTS, program_words=("smi",))})


@pytest.mark.parametrize(
    "line",
    (
        "node12: GPU 1: a",
        "10.20.30.41: GPU 1: a",
        "17: GPU 1: a",
        "[1,23]<stderr>: GPU 1: a",
        "2026-11-26 12:34:56,789 - INFO - GPU 1: a",
        "Nov 26 12:34:56 node7 kernel[123]: [1234.5] GPU 1: a",
        "I1126 12:34:56.789012 4321 file.cc:98] GPU 1: a",
        "trainer-1  | node2: GPU 1: a",
        "  12\tINFO: > > 'GPU 1: a'",
        "node1: 2026-11-26T12:34:56.123456Z stdout F |  1  GPU",
    ),
)
def test_no_number_decides_where_a_prefix_ends(line: str) -> None:
    """Lines that differ by digits have prefixes of the same lengths: those of one are those of all."""
    ends = [each.length for each in list_prefixes(line)]

    assert ends
    assert ends == [each.length for each in list_prefixes(fold_digits(line).decode())]


def test_what_is_behind_the_prefixes_of_lines_that_differ_by_digits() -> None:
    """Each line has its own host, and its own numbers decide what it begins."""
    text = "node1: GPU 1: ab\nnode2: GPU 0: ab\nnode3: GPU 2: ab\nnode4: GPU 0: cd\nnode4: NPU ID : 5\n9: NPU ID : 6"

    parts = [part for part in SPLITTER.split_lines(text.split("\n")) if part.tools]

    assert [(part.host, part.form, part.lines[0]) for part in parts] == [
        ("node2", "list", "GPU 0: ab"),
        ("node4", "list", "GPU 0: cd"),
        ("node4", "key", "NPU ID : 5"),
        ("9", "key", "NPU ID : 6"),
    ]


@pytest.mark.parametrize(
    "pattern", (r"GPU 7: a", r"GPU (?!0)\d: a", r"GPU [^0]: a", r"GPU [5-7]: a", r"(?:GPU (\d)\1: a|GPU 7)")
)
def test_a_pattern_that_no_zero_matches_is_asked_for_each_line(pattern: str) -> None:
    splitter = PartSplitter({"smi": OutputForms("smi", (FirstLine("row", pattern, ("GPU",)),), program_words=("smi",))})

    assert [splitter.split_lines([row])[-1].form for row in ("GPU 0: a", "GPU 7: a")] == ["", "row"]


def test_the_parts_at_both_ends_are_kept() -> None:
    """Of many parts, those in the middle are removed."""
    count = 3 * PARTS_LIMIT
    lines = [f"node{at}: NPU ID : {at % 10}" for at in range(count)]

    parts = SPLITTER.split_lines(lines)

    assert len(parts) == PARTS_LIMIT
    assert (parts[0].first, parts[1].host, parts[-2].host) == (0, "node0", f"node{count - 1}")
