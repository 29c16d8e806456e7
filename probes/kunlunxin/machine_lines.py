"""Parses `xpu_smi -m`: one line of 32 fields per device, without a header; the model is in quotes.

00000000:03:00.0 0 0 02K15K624CV00304 36 0 0 0 86 1450 1450 1450 1450 1450 1450 2 96 90440 98304 0 1.0:2.6 "P800 OAM" 0
bus id, board, device, serial number, temperature, -, of the memory, -, power, six clocks, L3 used and total, memory
used and total, load, firmware, model
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from envcheck.core.model import CellRemark, Device, Document
from probes.smi import cell_words, device_cells
from probes.smi.pasted_output import PastedOutput, cell_value
from probes.smi.word_alignment import FAILURE_WORDS

FIELDS, LEAST = 32, 22  # with all frames and clocks of the video units; up to the model
MOST_WATTS = 2000  # more are milliwatts, as tools of 4.x print
LINE_LIMIT, PIECES = 1000, 3  # pieces after the first of a line that a terminal wrapped
_BUS = r"(?:[0-9a-fx]{4,8}:)?[0-9a-fx*]{2}:[0-9a-fx*]{2}\.[0-7x*]"
# A line may have a mark before the bus id, such as '# '; a masked bus id keeps its colons.
_FIRST = re.compile(rf"(?:^|[\s'\"`>:|#]){_BUS}\s", re.IGNORECASE)
_BUS_WORD = re.compile(_BUS, re.IGNORECASE)
_PREFIX_LIMIT = 120
_WORD = re.compile(rf'"([^"\n]{{0,80}})"|({FAILURE_WORDS}|\S+)')
_MODEL = re.compile(r"(?:[KR]\d00|RG800|P800)\b")
_BARS = 2  # of a mark before a line and one behind it; a row of a table has more
_MASKS = 3  # of a line that stays one of a device
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?|N/A|-")
_BUS_ID = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_PLACES = {
    "bus_id": 0,
    "index": 2,
    "temperature_c": 4,
    "power_w": 8,
    "clock_sm_mhz": 9,
    "memory_used_mib": 17,
    "memory_total_mib": 18,
    "utilization_percent": 19,
    "name": 21,
}
_NUMBERS = (1, 2, 4, 8, *range(15, 20))


def parse_machine_lines(paste: PastedOutput) -> Document | None:
    """Return the document of kind `machine`, or None if no line has these fields."""
    devices: list[Device] = []
    remarks: list[CellRemark] = []
    cut = False
    for at, line in enumerate(paste.lines):
        if line.count("|") > _BARS:
            continue
        found = _FIRST.search(line[:_PREFIX_LIMIT]) if ":" in line and "." in line and len(line) <= LINE_LIMIT else None
        below = paste.lines[at + 1 : at + 1 + PIECES]
        words = _read_words(line[found.start() :], below) if found else _read_masked_words(line, below)
        if not words:
            continue
        named = _name_words(words)
        if named is None:
            cut = cut or (len(words) > 5 and all(map(_NUMBER.fullmatch, words[4:])))
            continue
        cut = len(words) < FIELDS - 1
        devices.append(_make_device(named, len(devices)))
        remarks += [CellRemark(paste.numbers[at], *each) for each in device_cells.list_unreadable(named)]
    return (
        Document(paste.tool.name, "machine", truncated=cut, devices=tuple(devices), remarks=tuple(remarks))
        if devices
        else None
    )


def _read_masked_words(line: str, below: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a line whose bus id is masked or blank, also behind a time; nothing for another line."""
    if len(line) > LINE_LIMIT or not any(map(_MODEL.search, (line, *below[:1]))):
        return ()
    begin = _split_words(line)[:2]  # a rule of a table is one word
    starts = [at for at, word in enumerate(begin) if cell_words.is_unprinted(word) or _NUMBER.fullmatch(word)]
    words = _read_words(line, below) if starts and len(begin) > 1 else ()
    return next((words[start:] for start in starts if _name_words(words[start:])), ())


def _name_words(words: Sequence[str]) -> dict[str, str | None] | None:
    """Return the cells of a device by field; None if the words are not those of a line.

    One word may be missing: then the cells that are the same wherever it was.
    """
    if len(words) >= LEAST and _are_fields(words):
        return _name_places(words)
    model = next((at for at, word in enumerate(words) if _MODEL.match(word)), 0)
    if model != LEAST - 2:
        return None
    filled = [[*words[:at], "", *words[at:]] for at in range(LEAST - 1)]
    choices = [_name_places(each) for each in filled if _are_fields(each)]
    if not choices:
        return None
    return {name: cell if all(each[name] == cell for each in choices) else "" for name, cell in choices[0].items()}


def _are_fields(words: Sequence[str]) -> bool:
    """Return whether the words have the forms of their places; a few may be masked."""
    odd = [words[place] for place in _NUMBERS if not _NUMBER.fullmatch(words[place])]
    is_bus = not words[0] or cell_words.is_unprinted(words[0]) or _BUS_ID.fullmatch(words[0]) or "x" in words[0].lower()
    return len(odd) < _MASKS and all(not word or cell_words.is_unprinted(word) for word in odd) and bool(is_bus)


def _name_places(words: Sequence[str]) -> dict[str, str | None]:
    cells: dict[str, str | None] = {name: words[place] for name, place in _PLACES.items()}
    if len(words) > LEAST and re.fullmatch(r"[A-Za-z]\w{0,8}", words[LEAST]):  # "P800 OAM" without its quotes
        cells["name"] = f"{words[LEAST - 1]} {words[LEAST]}"
    return cells


def _read_words(line: str, following: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a line; a line that is too short goes on in the following ones, up to the next bus id."""
    for piece in following:
        if len(_split_words(line)) >= FIELDS or not piece.strip() or len(piece) > LINE_LIMIT or _begins_line(piece):
            break
        words = _split_words(piece)
        if not words or not _NUMBER.fullmatch(words[-1]):
            break  # a prompt or prose
        line += piece
    return _split_words(line)


def _begins_line(piece: str) -> bool:
    """Return whether a bus id is in front of the piece, perhaps behind a mark or a time: a mask elsewhere is none."""
    return any(map(_BUS_WORD.fullmatch, _split_words(piece[:_PREFIX_LIMIT])[:2]))


@lru_cache(maxsize=64)  # a line is also one below others
def _split_words(line: str) -> tuple[str, ...]:
    line = line.strip(" \t'`>:|#")
    return tuple(named or word for named, word in _WORD.findall(line))


def _make_device(named: dict[str, str | None], position: int) -> Device:
    cells = {name: cell_value(cell) for name, cell in named.items()}
    cells["bus_id"] = cells["bus_id"] if _BUS_ID.fullmatch(cells["bus_id"] or "") else None
    device = device_cells.make_device(cells, position)
    in_milliwatts = device.power_w is not None and device.power_w > MOST_WATTS
    return replace(device, power_w=(device.power_w or 0) / 1000) if in_milliwatts else device
