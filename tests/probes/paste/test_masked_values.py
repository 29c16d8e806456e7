"""A value that somebody masked, in any kind of output, costs no device and makes none."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from envcheck.core.model import Document
from probes.paste.paste_parser import make_splitter, parse_paste
from tests.probes.paste.test_joined_recordings import read_text
from tests.probes.paste.test_paste_parser import RECORDINGS, TOOLS

SPLITTER = make_splitter(TOOLS)
MASKS = ("****", "xxxx:xx:xx.x", "ERR!", "未知", "", "Unknown Error", "***", "<masked>", "x")
SAMPLE, SAMPLED = 2, 40  # cells of a recording, and recordings, in the tier `fast`
MOST_CELLS, MOST_CHARACTERS = 60, 60_000
_HEAD = re.compile(r"Version|Name|Bus-Id|Process|MIG|Usage/Cap|Fan|PID|running|-SMI|npu-smi|={5}|-{5}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_VALUE = {
    "query-text": re.compile(r"^\s*[A-Za-z][^:\d]*?\s+:\s+(\S.*)$"),
    "xml": re.compile(r">([^<>]+)</"),
}
_LINES = ("list", "log", "machine")
# A program whose strings have the lines: a mask of its last word takes the line break in the string.
_OTHERS = ("p800_in_source",)


def parse(text: str) -> Document:
    return parse_paste(text, TOOLS, splitter=SPLITTER)


def list_values(text: str, kind: str) -> Iterator[tuple[int, int, int]]:
    """Yield line, begin and end of each value that a person may mask."""
    for at, line in enumerate(text.split("\n")):
        if line.count("|") > 1 and re.search(r"\d", line) and not _HEAD.search(line):
            bars = [place for place, sign in enumerate(line) if sign == "|"]
            for begin, end in pairwise(bars):
                if _COLOUR.sub("", line[begin + 1 : end]).strip():
                    yield at, begin + 1, end
                yield from _list_words(at, line, begin + 1, end)
        elif kind in ("csv", "session") and at and "," in line and "|" not in line and re.search(r"\d", line):
            yield from ((at, *found.span(1)) for found in re.finditer(r"(?:^|,)\s*([^,\s](?:[^,]*[^,\s])?)", line))
        elif kind in _VALUE and (found := _VALUE[kind].search(line)):
            yield at, *found.span(1)
        elif kind in _LINES and "|" not in line:
            words = re.finditer(r"[^\s'\"()]+", line)
            yield from ((at, *word.span()) for word in words if re.search(r"\d", word[0]) and "T" not in word[0])


def _list_words(at: int, line: str, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    words = list(re.finditer(r"\S+", line[begin:end]))
    if len(words) > 1:
        yield from ((at, begin + word.start(), begin + word.end()) for word in words if "\x1b" not in word[0])


def list_wrong_masks(file: Path, most: int) -> list[tuple[str, int, str, str]]:
    """The values and masks with which the number of devices, or a device's identity, is another one."""
    text = read_text(file)
    whole = parse(text) if len(text) < MOST_CHARACTERS and file.stem not in _OTHERS else Document("", "")
    values = list(list_values(text, whole.kind)) if whole.devices else []
    lines = text.split("\n")
    wrong = []
    for at, begin, end in random.Random(file.name).sample(values, min(most, len(values))):
        line = lines[at]
        for mask in MASKS:
            if not mask and not line[end:].strip():
                continue  # a line without its end is cut
            masked = line[:begin] + mask.ljust(end - begin) + line[end:]
            found = parse("\n".join([*lines[:at], masked, *lines[at + 1 :]]))
            if not keeps_devices(whole, found):
                wrong.append((file.name, at + 1, line[begin:end], mask))
    return wrong


def keeps_devices(whole: Document, found: Document) -> bool:
    """Whether each device is there once, and what identifies it is as printed or unknown."""
    if len(whole.devices) != len(found.devices):
        return False
    names = ("npu", "chip", "phy_id", "bus_id", "uuid")
    pairs = zip(whole.devices, found.devices, strict=True)
    return all(getattr(own, name) in (None, getattr(one, name)) for one, own in pairs for name in names)


def test_masked_values_of_a_sample() -> None:
    files = random.Random(20).sample(RECORDINGS, min(SAMPLED, len(RECORDINGS)))

    assert [wrong for file in files for wrong in list_wrong_masks(file, SAMPLE)] == []


@pytest.mark.extended
@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_masked_values_of_all_recordings(file: Path) -> None:
    assert list_wrong_masks(file, MOST_CELLS) == []


def test_half_of_a_pair_makes_no_chip() -> None:
    """A second row whose memory is cut to `3628` fits a first row as well: no rule is above it, so it is none."""
    file = next(each for each in RECORDINGS if each.name == "310p_duo_no_hbm.txt")
    text = read_text(file)
    cut = re.sub(r"(\d+) / (44280|43693) ", lambda found: found[1].ljust(len(found[0])), text)

    assert cut != text
    assert keeps_devices(parse(text), parse(cut))


def test_a_fragment_without_a_readable_memory() -> None:
    """Rows of ixsmi without a head, of which the memory is masked."""
    file = next(each for each in RECORDINGS if each.name == "biv100_tail_without_head.txt")
    masked = re.sub(r"\d+MiB / \d+MiB", "****", read_text(file))

    (device,) = parse(masked).devices
    assert (device.name, device.memory_total_mib, device.temperature_c) == ("Iluvatar BI-V100", None, 35.0)


@pytest.mark.parametrize("words", ["GPU ****: Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000001)",
                                   "GPU 0: Tesla T4 (UUID: ****)", "GPU 0: **** (UUID: GPU-1111-0001)"])  # fmt: skip
def test_a_masked_line_of_a_list(words: str) -> None:
    text = f"{words}\nGPU 1: Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000002)\n"

    assert [device.index for device in parse(text).devices] == [0, 1]
