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
from functools import lru_cache

_PAIR = r"(?:\d+\s*%\s+)?(?P<{0}>N/A|[^/]+?)\s*/\s*(?P<{1}>N/A|[^/]*?)"  # "0%  12MB / 4799MB" before driver 319

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
_LABEL = re.compile("|".join(f"({label})" for label in COLUMNS))

# Pattern of a value at any position: for a cell without one of its columns, or with a message instead.
_SHAPES: dict[str, str] = {
    "index": r"^\s*(\d+)\s",
    "name": r"^\s*\d+\s+(\S.*?)(?:\s+(?:On|Off|N/A|WDDM|TCC|MCDM))?\s*$",
    "persistence": r"\s(On|Off|N/A)\s*$",
    "bus_id": r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])",
    "fan_percent": r"(?:^|\s)(\d+)\s?%",
    "temperature_c": r"(?:^|\s)(\d+)\s?C\b",
    "perf_state": r"\b(P\d{1,2})\b",
    "power_w": r"(\d+(?:\.\d+)?)\s?W\s*/",
    "power_limit_w": r"/\s*(\d+(?:\.\d+)?)\s?W",
    "memory_used_mib": r"(\d+)\s?Mi?B\s*/",
    "memory_total_mib": r"/\s*(\d+)\s?Mi?B",
    "utilization_percent": r"(?:^|\s)(\d+)\s?%",
    "clock_sm_mhz": r"^\s*(\d+)\s?MHz",
    "clock_memory_mhz": r"(\d+)\s?MHz\s*$",
}
_ANYWHERE = {name: re.compile(shape) for name, shape in _SHAPES.items()}
_GROUP = re.compile(r"\(\?P<\w+>")
BUS_ID = _ANYWHERE["bus_id"]

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
        if not any(name in "".join(parts) for name in _GROUP.findall(part)):  # a garbled header repeats a column
            parts.append(part)
    pattern = re.compile(r"\s*" + r"\s+".join(parts) + r"\s*$")
    return pattern, tuple(pattern.groupindex)


def find_shapes(cell: str) -> dict[str, str]:
    """Return the values in a cell that their own form shows, by name."""
    found = ((name, pattern.search(cell)) for name, pattern in _ANYWHERE.items())
    return {name: match[1] for name, match in found if match}


def list_names(labels: str) -> tuple[str, ...]:
    """Return the names of the values below a header cell."""
    return _cell_pattern(" ".join(labels.split()))[1]


def read_cell(labels: str, cell: str) -> dict[str, str | None]:
    """Return the values of one cell by name; None for values that it does not show."""
    pattern, names = _cell_pattern(" ".join(labels.split()))
    cell = " ".join(cell.split())  # repeated blanks have no meaning here and make patterns slow
    found = pattern.match(cell)
    if found:
        return dict(found.groupdict())
    shapes = ((name, _ANYWHERE.get(name)) for name in names)
    return {name: shape[1] for name, pattern in shapes if pattern and (shape := pattern.search(cell))}
