"""Parses npu-smi's smaller tables: -m (map), watch, info-vnpu, template-info; and npu-list, a tool of some sites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from envcheck.core.model import CellRemark, Document
from envcheck.core.text_table import TableRow, parse_rows
from envcheck.core.tool_text import cell_text, parse_whole_number
from probes.ascend.npu_alignment import is_mask
from probes.ascend.npu_page import TOOL, OutputPage

_MAP_WORDS = re.compile(r"NPU ID|Slot ID|Chip Logic ID|Chip Phy-?ID|Chip ID|Chip Name", re.IGNORECASE)
_MAP_HEAD = re.compile(r"ID[\s|]+(?:Chip|Slot|NPU)\b", re.IGNORECASE)  # two adjacent header words
_MAP_FIRST = re.compile(r"\s*NPU ID\s")
_MAP_KEYS = {
    "npuid": "npu",
    "slotid": "slot",
    "chipid": "chip",
    "chiplogicid": "logic_id",
    "chipphyid": "phy_id",
    "chipname": "name",
}
_WATCH_WORD = re.compile(r"[A-Za-z][A-Za-z ]{0,30}\([^()]{1,8}\)")
_WATCH_SIGNS = ("Pwr(W)", "Temp(C)", "AI Core(%)", "Memory(%)")
_WATCH_COLUMNS = {"pwrw", "tempc", "aicore", "aicpu", "ctrlcpu", "memory", "memorybw", "npuutil", "aicube", "aivector"}
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?")
_HELPERS = ("mcu", "3559")


def _keep_letters(word: str) -> str:
    return re.sub(r"[^a-z]", "", word.lower())


def read_mapping(page: OutputPage) -> Document | None:
    """Parse `info -m`: integers, and last a name, which can contain blanks."""
    columns: list[str] = []
    found: list[dict[str, Any]] = []
    if "id" not in page.lowercase_text or not _MAP_HEAD.search(page.body):
        return None
    for line in _join_broken_lines(page.lines):
        heads = ":" not in line and "id" in line.lower()  # two of any three header words contain it
        words = [_MAP_KEYS[_keep_letters(word)] for word in _MAP_WORDS.findall(line)] if heads else []
        if len(words) >= 3 and len(set(words)) == len(words):
            columns = words
        elif columns and (row := _parse_mapping_row(columns, line)):
            found.append(row)
    if not columns:
        return None
    chips = sum(row["name"] is not None and row["name"].lower() not in _HELPERS for row in found)
    return Document(tool=TOOL, kind="map", detail={"rows": found, "npu_chip_count": chips})


def _join_broken_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, with rows joined again if a terminal wrapped the header and each row."""
    width = 0
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        at += 1
        if "NPU ID" in line and _MAP_FIRST.match(line) and "Name" not in line and "Name" in following:
            width = len(line)
        elif not width or not line.strip()[:1].isdigit() or following.strip()[:1].isdigit() or not following.strip():
            yield line
            continue
        at += 1
        yield line.ljust(width) + following


def _parse_mapping_row(columns: list[str], line: str) -> dict[str, Any] | None:
    cells = line.replace("|", " ").split(None, len(columns) - 1)
    if len(cells) < len(columns) or not cells[0].isascii() or not cells[0].isdigit():
        return None
    row: dict[str, Any] = dict.fromkeys(_MAP_KEYS.values())
    for key, cell in zip(columns, cells, strict=False):
        row[key] = cell_text(cell) if key == "name" else parse_whole_number(cell)
    return row


def read_watch(page: OutputPage) -> Document | None:
    """Parse `info watch`: one line per chip and second, with the selected columns; the header can repeat.

    The columns of ids are missing if somebody cut them off, or selected other columns.
    """
    if not page.has_any("NpuID", "NPUID", "Npu ID", *_WATCH_SIGNS):
        return None
    columns: list[str] = []
    found: list[dict[str, Any]] = []
    remarks: list[CellRemark] = []
    for number, line in zip(page.numbers, page.lines, strict=True):
        words = [" ".join(word.split()) for word in _WATCH_WORD.findall(line)] if "(" in line else []
        if words and _is_watch_header(words, line):
            columns = columns or words
        elif columns and len(cells := line.split()) == len(columns) and all(map(_is_watch_cell, cells)):
            row = list(zip(columns, cells, strict=True))
            found.append({column: None if is_mask(cell) else _parse_number(cell) for column, cell in row})
            remarks += [CellRemark(number, column, cell) for column, cell in row if is_mask(cell)]
    detail = {"columns": columns, "rows": found}
    return Document(tool=TOOL, kind="watch", detail=detail, remarks=tuple(remarks)) if columns else None


def _is_watch_header(words: Sequence[str], line: str) -> bool:
    """Return whether the words are columns: the first is an id, or the line has only columns that watch prints."""
    if _keep_letters(words[0]).startswith("npuid"):
        return True
    known = sum(_keep_letters(word) in _WATCH_COLUMNS for word in words)
    return known > 1 and known == len(words) and not _WATCH_WORD.sub("", line).strip()


def _is_watch_cell(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell)) or cell_text(cell) is None or is_mask(cell)


def _parse_number(cell: str) -> int | float | str | None:
    if _NUMBER.fullmatch(cell):
        return float(cell) if "." in cell else int(cell)
    return cell_text(cell)


def _list_data_rows(page: OutputPage) -> list[TableRow]:
    return [row for row in parse_rows(page.lines) if isinstance(row, TableRow) and row.cells]


def read_holders(page: OutputPage) -> Document | None:
    """Parse `npu-list`: which container uses which /dev/davinciN."""
    if not page.has_any("Npu devices", "NPU devices", "/dev/davinci") or "|" not in page.body:
        return None
    columns: list[str] = []
    found: list[dict[str, Any]] = []
    for row in _list_data_rows(page):
        words = ["".join(cell.lower().split()) for cell in row.cells]
        if "npudevices" in words:
            columns = ["device" if word == "npudevices" else re.sub(r"container", "container_", word) for word in words]
        elif columns and len(row.cells) == len(columns) and row.closed and row.cells[0].startswith("/dev/"):
            cells = dict(zip(columns, map(cell_text, row.cells), strict=False))
            number = re.search(r"(\d{1,6})$", row.cells[0])
            found.append({**cells, "index": int(number[1]) if number else None})
    return Document(tool=TOOL, kind="npu-list", detail={"devices": found}) if columns else None


def read_vnpus(page: OutputPage) -> Document | None:
    """Parse `-t info-vnpu`: free/total of each resource, then the virtual NPUs."""
    if not page.has_any("Total number of vnpu", "resource static info"):
        return None
    barless = (TableRow(tuple(part.strip() for part in line.strip(" \t|").split("|")), True) for line in page.lines)
    names: list[str] = []
    columns: list[str] = []
    resources: dict[str, dict[str, int | float | None]] = {}
    found: list[dict[str, Any]] = []
    total: int | None = None
    for row in _list_data_rows(page) if "\n|" in f"\n{page.body}".replace(" ", "") else barless:
        line = " ".join(row.cells)
        if counted := re.search(r"Total number of vnpu\s*:\s*(\d{1,6})", line, re.IGNORECASE):
            total = int(counted[1])
        elif "AICORE" in line.upper().split():
            names = line.split()
        elif line == "GB":
            names = ["Memory_GB" if name == "Memory" else name for name in names]
        elif names and not resources and len(shares := line.replace("N/A", "NA").split()) == len(names) and "/" in line:
            resources = {name: _parse_share(share) for name, share in zip(names, shares, strict=False)}
        elif "Vnpu ID" in row.cells:
            columns = ["template" if c == "Template Name" else "_".join(c.lower().split()) for c in row.cells]
        elif columns and len(row.cells) == len(columns) and row.closed:
            found.append({c: _parse_cell(c, cell) for c, cell in zip(columns, row.cells, strict=False)})
    return Document(tool=TOOL, kind="vnpu", detail={"resources": resources, "total_vnpu": total, "vnpus": found})


def _parse_share(cell: str) -> dict[str, int | float | None]:
    free, _, total = cell.partition("/")
    return {"free": _parse_amount(free), "total": _parse_amount(total)}


def _parse_amount(text: str) -> int | float | None:
    value = _parse_number(text)
    return None if isinstance(value, str) else value


def _parse_cell(column: str, cell: str) -> int | float | str | None:
    return cell_text(cell) if column in ("container_id", "template") else _parse_number(cell)


def read_templates(page: OutputPage) -> Document | None:
    """Parse `-t template-info`: two header rows, and two rows per template in the same order."""
    if not page.has_any("template info"):
        return None
    heads: list[list[str]] = []
    found: list[dict[str, Any]] = []
    for row in _list_data_rows(page):
        words = " ".join(row.cells).split()
        if words[:2] == ["Name", "AICORE"]:
            heads = [["Memory_GB" if word == "Memory" else word for word in words]]
        elif len(heads) == 1 and not found and words and not _NUMBER.fullmatch(words[-1]):
            heads.append([word for word in words if word != "GB"])
        elif heads and len(words) == len(heads[0]):
            found.append(
                {"name": words[0]} | {k: _parse_number(w) for k, w in zip(heads[0][1:], words[1:], strict=False)}
            )
        elif len(heads) == 2 and found and len(words) == len(heads[1]):
            found[-1] |= {key: _parse_number(word) for key, word in zip(heads[1], words, strict=False)}
    return Document(tool=TOOL, kind="vnpu-template", detail={"templates": found}) if heads else None
