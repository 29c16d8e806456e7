"""What is read of a text again and again is read once: the calls of a line are counted, no time is measured."""

from __future__ import annotations

import pytest

from benchmarks.parse import KINDS
from probes.paste import long_text
from probes.paste.paste_parser import make_splitter
from probes.paste.text_parts import PartSplitter, TextPart
from tests.probes.paste.test_linear_time import TOOLS, count_calls

# Kind → calls of a line at most, a tenth to a fifth more than it has.
MOST = {
    "its own tables": 12,
    "rules": 30,
    "answers of -t": 40,
    "answers of -l": 60,
    "rows of CSV": 100,
    "numbers without a header": 130,
    "rows of a query": 240,
    "rows of 200 columns": 100,
}


@pytest.mark.parametrize("kind", MOST)
def test_calls_of_a_line(kind: str) -> None:
    """A line of this kind is not looked at more often than today."""
    texts = [KINDS[kind](size) for size in (20_000, 60_000)]
    count_calls(texts[0])  # compiles the patterns

    small, large = map(count_calls, texts)

    assert (large - small) / (texts[1].count("\n") - texts[0].count("\n")) < MOST[kind]


def test_of_a_text_full_of_outputs_the_end_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty blocks of outputs, of which two are kept, are not all split."""
    monkeypatch.setattr(long_text, "BLOCK", 20_000)
    monkeypatch.setattr(long_text, "KEPT_LIMIT", 40_000)
    splitter, split = make_splitter(TOOLS), []

    def split_lines(self: PartSplitter, lines: list[str], host: str = "") -> list[TextPart]:
        split.append(lines)
        return whole(self, lines, host)

    whole = PartSplitter.split_lines
    monkeypatch.setattr(PartSplitter, "split_lines", split_lines)
    blocks = [KINDS["distinct tables"](20_000)] * 20

    kept, left_out = long_text.select_outputs(blocks, splitter)

    assert len(split) < 15
    assert len(kept) + left_out == pytest.approx(sum(map(len, blocks)), rel=0.01)
