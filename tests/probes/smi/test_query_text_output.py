"""`-q` text: values that go on below, and values that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from probes.smi import nvidia_smi

TEXTS = sorted((Path(__file__).parents[2] / "data" / "nvidia_smi" / "query_text").glob("*.txt"))
TEXT = TEXTS[0].read_text(encoding="utf-8")


def wrap_lines(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))


@pytest.mark.parametrize(
    "changed",
    [
        re.sub(r"((?:Product Name|GPU UUID)\s+:) ", r"\1\n\n        ", TEXT),
        re.sub(r"(Product Name\s+: \S+) ", rf"\1\n\n{' ' * 30}", TEXT),
        re.sub(r"(GPU UUID\s+: .{12})", rf"\1\n{' ' * 30}", TEXT),
        TEXT.replace("\n", "\n\n"),
    ],
    ids=["below", "within", "identifier", "blank lines"],
)
def test_values_go_on_below(changed: str) -> None:
    """A value on the next line, or in two pieces, also with blank lines between, is the same."""
    assert changed != TEXT
    assert nvidia_smi.parse(changed).devices == nvidia_smi.parse(TEXT).devices


def test_a_wrap_before_the_colons() -> None:
    """A terminal narrower than the keys breaks each line between key and colon."""
    width = max(len(line.partition(" : ")[0].rstrip()) for line in TEXT.splitlines() if " : " in line) + 1
    names = [device.name for device in nvidia_smi.parse(wrap_lines(TEXT, width)).devices]

    assert names == [device.name for device in nvidia_smi.parse(TEXT).devices]


def test_remarks_have_lines() -> None:
    """A masked or failed value is None with a remark; N/A is not a failure."""
    text = "\n\n\n" + re.sub(r"(Product Name\s+:) .*", r"\1 ***", TEXT, count=1)

    (remark,) = nvidia_smi.parse(text).remarks

    assert (remark.field, remark.text) == ("name", "***")
    assert "***" in text.split("\n")[remark.line - 1]
    assert nvidia_smi.parse(TEXT).remarks == ()


def test_selected_lines() -> None:
    """`-q | grep` leaves a line per device; in a longer text such a line is no output."""
    text = "".join(f"    GPU UUID                              : GPU-0000000{at}\n" for at in range(3))

    document = nvidia_smi.parse("$ nvidia-smi -q | grep UUID\n" + text)

    assert [device.uuid for device in document.devices] == ["GPU-00000000", "GPU-00000001", "GPU-00000002"]
    assert document.kind == "query-text"
    assert nvidia_smi.parse("Our cards are:\n" + text).kind == "unknown"
