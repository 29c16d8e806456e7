"""Parses the cells of nvidia-smi's and ixsmi's tables by the words above them in the header.

| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |      to 525; 530 and 550 widened
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |      the left and the middle box
|                               |                      |               MIG M. |      from 450 on
|   0  Tesla T4            Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   40C    P0    26W /  70W |   1032MiB / 15360MiB |      0%      Default |
|                               |                      |                  N/A |

| GPU  Name                     | Bus-Id               | Clock-SM  Clock-Mem  |      ixsmi, with the same second row
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from probes.smi import cell_words, device_cells
from probes.smi.word_alignment import Column, align_words


@dataclass(frozen=True)
class CellValues:
    """The values of one cell by name, and the name and the text of those that are unreadable."""

    texts: Mapping[str, str | None]
    unread: tuple[tuple[str, str], ...]


# "0%  12MB / 4799MB" before driver 319
_PAIR = r"(?:\d+\s*%\s+)?(?P<{0}>N/A|[^/\s](?:[^/]*[^/\s])?)\s*/\s*(?P<{1}>N/A|[^/]*?)"

# Label in the header → pattern of the value below it.
COLUMNS: dict[str, str] = {
    r"GPU-Util": r"(?P<utilization_percent>\S+)",
    r"GPU": r"(?P<index>\d+)",
    r"Name": r"(?P<name>\S.*?)",
    r"Persistence-M\.?": r"(?P<persistence>\S+)",
    r"TCC/WDDM|Driver-Model": r"(?P<driver_model>\S+)",
    r"Bus-Id": r"(?P<bus_id>\S+)",
    r"Disp\.\s?A?": r"(?P<display_active>\S+)",
    r"Volatile Uncorr\.\s*ECC": r"(?P<ecc_uncorrected>.*?)",
    r"Clock-SM": r"(?P<clock_sm_mhz>\S+)",
    r"Clock-Mem": r"(?P<clock_memory_mhz>\S+)",
    r"Fan": r"(?P<fan_percent>\S+)",
    r"Temp": r"(?P<temperature_c>\S+)",
    r"Perf": r"(?P<perf_state>\S+)",
    r"Pwr:\s?Usage/Cap": _PAIR.format("power_w", "power_limit_w"),
    r"Memory-Usage": rf"(?:{_PAIR.format('memory_used_mib', 'memory_total_mib')}|(?P<memory_text>.*?))",
    r"Compute M\.": r"(?P<compute_mode>.*?)",
    r"MIG M\.": r"(?P<mig_mode>.*?)",
}
_GROUP = re.compile(r"\?P<(\w+)>")
_LABEL = re.compile("|".join(f"({label})" for label in COLUMNS))

_NUMBER = r"\d+(?:\.\d+)?"
# Form of the values of a column; those without are texts of any words.
_FORMS: dict[str, str] = {
    "index": r"\d{1,5}",
    "persistence": r"On|Off|WDDM|TCC|MCDM",  # Windows has the driver model there; its heading may be cut
    "driver_model": r"WDDM|TCC|MCDM",
    "bus_id": r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]",
    "display_active": r"On|Off",
    "ecc_uncorrected": r"\d+|On|Off",
    "clock_sm_mhz": rf"{_NUMBER}\s?MHz",
    "clock_memory_mhz": rf"{_NUMBER}\s?MHz",
    "fan_percent": rf"{_NUMBER}\s?%",
    "temperature_c": rf"-?{_NUMBER}\s?C",
    "perf_state": r"P\d{1,2}",
    "power_w": rf"{_NUMBER}\s?W",
    "power_limit_w": rf"{_NUMBER}(?:\s?W)?",  # 65535W in the cell pushes the unit of the limit out
    "memory_used_mib": rf"{_NUMBER}\s?Mi?B",
    "memory_total_mib": rf"{_NUMBER}\s?Mi?B",
    "utilization_percent": rf"{_NUMBER}\s?%",
    "mig_mode": r"(?:En|Dis)abled\*?",
}
_FORM = {name: re.compile(form) for name, form in _FORMS.items()}
_ANY = re.compile("")
ZEROS = str.maketrans("123456789", "0" * 9)  # no form depends on which digits a value has
_SLASH = {"power_w": "power_limit_w", "memory_used_mib": "memory_total_mib"}  # values with a slash between them
BUS_ID = _FORM["bus_id"]

DEFAULT_HEAD: dict[str, tuple[tuple[str, ...], ...]] = {
    "nvidia-smi": (
        ("GPU Name Persistence-M", "Bus-Id Disp.A", "Volatile Uncorr. ECC"),
        ("Fan Temp Perf Pwr:Usage/Cap", "Memory-Usage", "GPU-Util Compute M."),
        ("", "", "MIG M."),
    ),
    "ixsmi": (
        ("GPU Name", "Bus-Id", "Clock-SM Clock-Mem"),
        ("Fan Temp Perf Pwr:Usage/Cap", "Memory-Usage", "GPU-Util Compute M."),
    ),
    "xpu-smi": (
        ("GPU Name Persistence-M", "Bus-Id Disp.A", "Volatile Uncorr. ECC"),
        ("Fan Temp Perf Pwr:Usage/Cap", "Memory-Usage", "GPU-Util Compute M."),
        ("", "L3-Usage", "SR-IOV M."),
    ),
}


@lru_cache(maxsize=256)
def _cell_pattern(labels: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern for the cells below a header cell, and the names of its values."""
    below = list(COLUMNS.values())
    parts: list[str] = []
    for found in _LABEL.finditer(labels):
        part = below[(found.lastindex or 1) - 1]
        if not set(_GROUP.findall(part)) & set(_GROUP.findall("".join(parts))):  # a garbled header repeats a column
            parts.append(part)
    pattern = re.compile(r"\s*" + r"\s+".join(parts) + r"\s*$")
    return pattern, tuple(pattern.groupindex)


@lru_cache(maxsize=256)
def list_names(labels: str) -> tuple[str, ...]:
    """Return the names of the values below a header cell."""
    return _cell_pattern(" ".join(labels.split()))[1]


@lru_cache(maxsize=256)
def _list_columns(labels: str) -> tuple[Column, ...]:
    """Return the columns below a header cell, with those of the slashes between two values."""
    below = list(COLUMNS.values())
    columns: dict[str, Column] = {}
    for found in _LABEL.finditer(labels):
        place = (found.start() + found.end()) / 2
        shifts = dict.fromkeys(_SLASH, found.start() - place) | dict.fromkeys(_SLASH.values(), found.end() - place)
        for name in _GROUP.findall(below[(found.lastindex or 1) - 1]):
            if name != "memory_text":
                form, at = _FORM.get(name, _ANY), place + shifts.get(name, 0)
                columns.setdefault(name, Column(name, form, at, has_words=name not in _FORM))
            if name in _SLASH:
                columns.setdefault(f"{name}/", Column("/", _ANY, place))
    return tuple(columns.values())


@lru_cache(maxsize=4096)  # the tables of a watch log have many equal cells
def read_cell(labels: str, cell: str) -> Mapping[str, str | None]:
    """Return the values of one cell by name; None for values that it does not show.

    If a value has not the form of its column, the words are assigned to the columns by their forms.
    """
    usual = _match_cell(labels, cell)
    if usual is not None:
        return usual
    aligned = align_words(cell, _list_columns(labels))
    for pair in _SLASH.items() if "/" not in aligned else ():  # one mask for both values
        texts = [aligned[name] for name in pair if name in aligned]
        if len(texts) == 1 and not any(_is_formed(name, texts[0]) for name in pair):
            aligned |= dict.fromkeys(pair, texts[0])
    return {name: aligned.get(name) for name in list_names(labels)}


@lru_cache(maxsize=4096)
def fits_heading(heading: tuple[str, ...], cells: tuple[str, ...]) -> bool:
    """Return whether each cell has the form of the columns above it."""
    return len(cells) == len(heading) and all(map(_match_cell, heading, cells))


@lru_cache(maxsize=4096)
def _match_cell(labels: str, cell: str) -> Mapping[str, str | None] | None:
    """Return the values of a cell of the usual form, else None."""
    cell = " ".join(cell.split())  # repeated blanks make patterns slow
    places = _match_shape(labels, cell.translate(ZEROS))
    if places is None:
        return None
    return {name: cell[begin:end] if begin >= 0 else None for name, begin, end in places}


@lru_cache(maxsize=4096)  # the cells of a watch log differ by their digits
def _match_shape(labels: str, cell: str) -> tuple[tuple[str, int, int], ...] | None:
    """Return the place of each value in a cell of the usual form, of which all digits are alike."""
    pattern, names = _cell_pattern(" ".join(labels.split()))
    found = pattern.match(cell)
    if found is None or not all(_is_sound(name, text) for name, text in found.groupdict().items()):
        return None
    return tuple((name, *found.span(name)) for name in names)


@lru_cache(maxsize=4096)
def read_cell_of_row(heading: tuple[str, ...], usual: tuple[str, ...], at: int, cell: str) -> CellValues:
    """Return the values of the cell at this place; where words of the heading are missing, it may be cut: the `usual`
    ones count."""
    labels = heading[at]
    values = read_cell(labels, cell)
    if missing := _find_missing_names(heading, usual[at]) if at < len(usual) else ():
        other = usual[at]
        more = read_cell(other, cell)
        found = {name: text for name, text in more.items() if name in missing and _is_formed(name, text)}
        is_cut = set(list_names(labels)) < set(list_names(other)) and any(more.get(name) for name in missing)
        values = more if is_cut and all(map(_is_sound, *zip(*more.items(), strict=True))) else {**values, **found}
    return CellValues(values, tuple(_list_unread(cell, values)))


def find_places(
    heading: tuple[str, ...], usual: tuple[str, ...], cells: tuple[str, ...]
) -> tuple[tuple[str, int, int, int], ...] | None:
    """Return name, cell, begin and end of each value of a row in which every cell has the usual form; the begin is -1
    for a value that is not there.

    None if any cell is read by `read_cell_of_row` in another way.  All digits of the cells are alike.
    """
    places: dict[str, tuple[str, int, int, int]] = {}
    for at, cell in enumerate(cells[: len(heading)]):
        missing = at < len(usual) and _find_missing_names(heading, usual[at])
        if not missing and not list_names(heading[at]):
            continue  # a column without a field, such as that of the L3 cache
        text = " ".join(cell.split())
        found = _match_shape(heading[at], text)
        if found is None or missing or any(_list_unread(cell, read_cell(heading[at], cell))):
            return None
        signs = [sign.start() for sign in re.finditer(r"\S", cell)]
        for name, begin, end in found:
            if begin < end:
                first, last = (signs[to - text.count(" ", 0, to)] for to in (begin, end - 1))
                if cell[first : last + 1] != text[begin:end]:  # with more than one blank in it
                    return None
                begin, end = first, last + 1
            places[name] = (name, at, begin, end)
    return tuple(places.values())


@lru_cache(maxsize=256)
def _find_missing_names(heading: tuple[str, ...], usual: str) -> frozenset[str]:
    return frozenset(list_names(usual)) - {name for labels in heading for name in list_names(labels)}


def _list_unread(cell: str, values: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the values of a cell that are unreadable, by field of Device; a blank one with the text of the cell."""
    names = [name for name, text in values.items() if not is_value(name, text and text.translate(ZEROS))]
    whole = " ".join(cell.split()) if names else ""
    if names and not cell_words.is_absent(whole):
        yield from ((name, values[name] or whole) for name in names if device_cells.is_field(name))


@lru_cache(maxsize=4096)
def is_value(name: str, text: str | None) -> bool:
    """Return whether the text has the form of its column, or says that there is no value."""
    return _is_formed(name, text) or (bool(text) and not cell_words.is_failure(text or "") and _is_sound(name, text))


@lru_cache(maxsize=4096)
def _is_sound(name: str, text: str | None) -> bool:
    """Return whether the text has the form of its column, or is an empty value."""
    if not text or _is_formed(name, text) or cell_words.is_absent(text) or cell_words.is_failure(text):
        return True
    if name == "memory_text":  # a message in place of two values
        return "/" not in text and "MiB" not in text and not cell_words.is_hidden(text)
    return name not in _FORM and not cell_words.is_hidden(text)


@lru_cache(maxsize=4096)
def _is_formed(name: str, text: str | None) -> bool:
    return bool(text and name in _FORM and _FORM[name].fullmatch(text))


def count_values(heading: Sequence[str], cells: Sequence[str]) -> int:
    """Return how many values of a row have the forms of the columns in this row of the heading."""
    return sum(map(_count_cell_values, heading, cells))


@lru_cache(maxsize=4096)
def _count_cell_values(labels: str, cell: str) -> int:
    return sum(_is_formed(name, text) for name, text in read_cell(labels, cell).items())
