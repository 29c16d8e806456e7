"""Parsers on damaged text: no exception, no device that is not in the text, bounded time."""

from __future__ import annotations

import importlib
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.cli.commands.parse import PARSERS, as_json
from envcheck.core.model import Document

DATA = Path(__file__).parents[1] / "data"
TEXTS = [
    (tool, raw.read_bytes())
    for tool in PARSERS
    for raw in sorted((DATA / tool.replace("-", "_")).glob("*/*"))
    if raw.suffix in (".txt", ".xml", ".csv")
]
MIB = 1 << 20
MODERATE = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def parse_text(tool: str, text: str) -> Document:
    parser: Callable[[str], Document] = importlib.import_module(PARSERS[tool]).parse
    return parser(text)


def check_document(tool: str, text: str) -> None:
    """Assert that the document is printable, belongs to this tool, and lists only devices present in the text."""
    document = parse_text(tool, text)
    json.dumps(as_json(document))

    assert document.tool == tool
    # Blanks, wrapping and control characters aside: a name may have been put together from two lines.
    letters = read_letters(text)
    for device in document.devices:
        for said in (device.bus_id, device.uuid, device.name):
            assert said is None or read_letters(said) in letters, (said, text)


def read_letters(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and not c.isspace())


@st.composite
def mutilate_text(draw: st.DrawFn) -> tuple[str, str]:
    """A text of tests/data after one or two accidents."""
    tool, raw = draw(st.sampled_from(TEXTS))
    for accident in draw(st.lists(st.sampled_from(ACCIDENTS), min_size=1, max_size=2)):
        raw = accident(raw, random.Random(draw(st.integers(0, 1 << 30))))
    return tool, raw.decode("utf-8", "replace")


def cut_end(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw) + 1)]


def cut_beginning(raw: bytes, chance: random.Random) -> bytes:
    return raw[chance.randrange(len(raw) + 1) :]


def lose_lines(raw: bytes, chance: random.Random) -> bytes:
    return b"".join(line for line in raw.splitlines(keepends=True) if chance.random() > 0.2)


def double_lines(raw: bytes, chance: random.Random) -> bytes:
    return b"".join(line * chance.choice((1, 1, 2)) for line in raw.splitlines(keepends=True))


def shuffle_lines(raw: bytes, chance: random.Random) -> bytes:
    lines = raw.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def add_prompts(raw: bytes, chance: random.Random) -> bytes:
    return b"(base) [root@node-1 ~]# some-command --option\n" + raw + b"\n(base) [root@node-1 ~]# \n"


def quote_lines(raw: bytes, chance: random.Random) -> bytes:
    return b"".join(b"> " + line for line in raw.splitlines(keepends=True))


def insert_noise(raw: bytes, chance: random.Random) -> bytes:
    spoilt = bytearray(raw)
    for _ in range(chance.randrange(1, 12)):
        spoilt.insert(chance.randrange(len(spoilt) + 1), chance.randrange(256))
    return bytes(spoilt)


ACCIDENTS = (cut_end, cut_beginning, lose_lines, double_lines, shuffle_lines, add_prompts, quote_lines, insert_noise)


@MODERATE
@given(mutilate_text())
def test_accidents_make_no_exception_and_no_device(case: tuple[str, str]) -> None:
    """Truncated, shuffled, duplicated, quoted or corrupted text lists only devices present in it."""
    check_document(*case)


@MODERATE
@given(st.sampled_from(sorted(PARSERS)), st.text(max_size=400))
def test_any_text_is_answered(tool: str, text: str) -> None:
    """Arbitrary text gives a document."""
    check_document(tool, text)


@MODERATE
@given(mutilate_text(), st.sampled_from(sorted(PARSERS)))
def test_another_tools_text_is_answered(case: tuple[str, str], tool: str) -> None:
    """Another tool's output gives a document without devices."""
    check_document(tool, case[1])


@pytest.mark.parametrize("tool, raw", TEXTS, ids=[f"{tool}-{at}" for at, (tool, _) in enumerate(TEXTS)])
def test_every_cut_is_answered(tool: str, raw: bytes) -> None:
    """Text cut at any position never gives more devices than the whole text."""
    whole = len(parse_text(tool, raw.decode("utf-8", "replace")).devices)
    steps = range(0, len(raw), max(1, len(raw) // 40))

    assert all(len(parse_text(tool, raw[:at].decode("utf-8", "replace")).devices) <= whole for at in steps)


JUNK: dict[str, Callable[[int], str]] = {
    "bytes": lambda size: random.Random(1).randbytes(size).decode("utf-8", "replace"),
    "one line": lambda size: "a" * size,
    "bars": lambda size: "| a | b |\n" * (size // 10),
    "unclosed rows": lambda size: "| NPU\n" * (size // 6),
    "rules": lambda size: "+---\n" * (size // 5),
    "blank lines": lambda size: "\n" * size,
    "wide blanks": lambda size: ("Process id:1 Process name:" + " " * 4000 + "x\n") * (size // 4027),
    "keys": lambda size: "".join(f"Chip {at} Usage Rate(%) : {at}\n" for at in range(size // 32)),
    "commands": lambda size: "$ npu-smi info -t topo\n" * (size // 23),
    "headers": lambda size: "NPU0 NPU1 NPU2\n" * (size // 15),
    "escapes": lambda size: "\x1b[" * (size // 2),
    "angles": lambda size: "<a>" * (size // 3),
    "commas": lambda size: "index, name, 1, MiB\n" * (size // 20),
    "banners": lambda size: "| NVIDIA-SMI 535.104.05 Driver Version: 535.104.05 |\n" * (size // 53),
    "long tags": lambda size: "<nvidia_smi_log>\n" + ("<a>" + 15_000 * "x" + "</a>\n") * (size // 15_008),
    "prefixed rules": lambda size: "".join(f"{name_number(at)}: +--------+\n" for at in range(size // 16)),
}


def name_number(number: int) -> str:
    """Return a word of its own for each number."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


@pytest.mark.parametrize("tool", sorted(PARSERS))
@pytest.mark.parametrize("kind", JUNK)
def test_junk_is_answered_in_time_that_grows_with_its_size(tool: str, kind: str) -> None:
    """Four times the junk takes no more than about four times as long, and shows no device."""
    took = []
    for size in (MIB // 4, MIB):
        text = JUNK[kind](size)
        began = time.process_time()
        document = parse_text(tool, text)
        took.append(time.process_time() - began)

        assert document.devices == ()
    # Quadratic work would take sixteen times as long; a second of grace for a busy machine.
    assert took[1] < 8 * took[0] + 1.0
