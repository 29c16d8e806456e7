"""Parses `npu-smi info -t TYPE` (and -l): "key : value" lines in blocks, one block per chip.

    NPU ID                         : 0
    Chip Count                     : 1

    HBM Usage Rate(%)              : 5
    Chip ID                        : 0

The line with the chip is before its block for some types and after it for others; the position of the first such line
decides.  The keys determine the type; the command decides only between types with the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from envcheck.core.model import Document
from probes.ascend import npu_errors
from probes.ascend.npu_field_lines import FieldLine, collect_entries
from probes.ascend.npu_page import TOOL, OutputPage

Value = int | float | str | None

_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")
_HEALTH_ORDER = {"ok": 0, "warning": 1, "alarm": 3, "critical": 4}
_UNLISTED = 2  # a word that is not known to be good, nor to be an alarm
_NIL = {"", "NA", "N/A", "-", "--"}
# Keys whose values are text even if they look like numbers.
_WORDY = re.compile(
    r"version|serial|name|model|manufacturer$|product|pcb|die id|code|system time|mac|address|bus|mask", re.I
)
_STRUCTURE = ("NPU ID", "Chip Count", "Chip ID", "Chip Name")
_MARKS = {"Chip ID", "Chip Name"}
_HELPERS = ("mcu", "3559", "cpu")  # other chips on a card: its controller, and the 310's host processor
# Kind → pattern of its keys, joined by newlines; the first match wins.  Compiled on first use, like _IN_LINE: the
# doctor parses answers of known type without them.
_SIGNATURES: tuple[tuple[str, str], ...] = (
    ("fault-event", r"^Fault Event"),
    ("vnpu-mode", r"^vnpu-mode$"),
    ("list", r"^(?:Total|Card) Count$"),
    ("flash", r"^Flash (?:ID|Count)$"),
    ("health", r"^Health(?: Status)?$"),
    ("phyid-remap", r"^Chip Physical ID$|^Chip Phy-?ID$"),
    ("sio-info", r"\A(?:(?:NPU ID|Chip Count|Chip ID)\n)*TX Error Count\nRX Error Count(?:\nChip ID)?\Z"),
    ("pcie-err", r"^(?:Pcs Rx|Phy Lane|Dl [LD]crc|TX|RX|Lcrc|Ecrc) Error Count$"),
    ("ecc", r"Bit (?:Error|Aggregate|Isolated|Next)|(?:Single|Double)-bit"),
    ("ecc-enable", r"^ECC Enable"),
    ("common", r"^Aicore (?:cur)?Freq|^Aicore Count$|^Memory Usage Rate\(%\)(?:.*\n)+?.*Temperature\(C\)$"),
    ("board", r"^Software Version$|^(?:PCB|BOM) ID$"),
    ("memory", r"Clock Speed ?\("),
    ("usages", r"Usage Rate ?\(|Utilization ?\("),
    ("sensors", r"^(?:Soc Max|SFP|NDIE|HBM|AICPU|AIC|DDR)\b.*Temperature ?\("),
    ("volt", r"Voltage ?\("),
    ("temp", r"Temperature ?\(C\)|^\S+ ?\(C\)$"),
    ("power", r"Power ?\(W\)|^(?:Rated )?Power Dissipation"),
    ("memory", r"Capacity ?\(MB\)"),
    ("spod-info", r"^SDID$|^Super ?Pod ID$"),
    ("sys-time", r"^System Time"),
    ("sys-log-info", r"^Current syslog dump"),
    ("tls-cert", r"^Alarm status\n(?:.*\n)*Common name$"),
    ("upgrade", r"^(?:VRD|MCU|VDM) (?:Count|Name)\n(?:.*\n)*?.*Version$"),
    ("set", r"^Status\nMessage$|^Message\nStatus$"),
    ("product", r"^Product Serial Number$"),
    ("list", r"^NPU ID\n(?:.*\n)*?NPU ID$"),
    ("fields", r"^NPU ID$|^Chip ID$"),
)
_TYPES = {name for name, _ in _SIGNATURES}


def read_fields(page: OutputPage) -> Document | None:
    """Return the document of one of these types, or None if the text has no such keys."""
    if ":" not in page.body:
        return None
    entries = collect_entries(page.lines, bool(page.query_type))
    kind = _find_kind(page, entries)
    if kind is None:
        return None
    detail: dict[str, Any] = {"npu": _read_only_npu(entries)}
    if asked := _command_ids(page):
        detail["from_command"] = asked
    return Document(tool=TOOL, kind=kind, detail=detail | _SHAPES.get(kind, _shape_blocks)(kind, entries))


def _command_ids(page: OutputPage) -> dict[str, int]:
    """Return the ids in the command line."""
    found = dict(re.findall(r"\s-([ic])\s+(\d{1,9})\b", page.command))
    return {name: int(found[letter]) for letter, name in (("i", "npu"), ("c", "chip")) if letter in found}


def _find_kind(page: OutputPage, entries: list[FieldLine]) -> str | None:
    keys = "\n".join(entry.key for entry in entries[:200])
    if not keys:
        return None
    matched = _match_signature(keys)
    named = {"current-fault-event": "fault-event"}.get(page.query_type, page.query_type)
    if named and matched is None and npu_errors.read_error(page) is not None:
        return None
    return named if named and (named in _TYPES or matched in ("fields", None)) and matched != "list" else matched


@lru_cache(maxsize=512)  # the answers of a watch log have the same keys
def _match_signature(keys: str) -> str | None:
    return next((name for name, like in _SIGNATURES if re.search(like, keys, re.IGNORECASE | re.MULTILINE)), None)


@lru_cache(maxsize=4096)
def _parse_value(key: str, text: str) -> Value:
    """Return numbers as numbers; versions, hexadecimal ids and names as text."""
    if text in _NIL:
        return None
    if _NUMBER.fullmatch(text) and not _WORDY.search(key):
        return float(text) if "." in text else int(text)
    return text


def _group_blocks(entries: list[FieldLine]) -> list[tuple[Value, list[FieldLine]]]:
    """Return the blocks with their marks, each with its NPU ID, or None.

    A mark is before or after its block, like the first one in the text.
    """
    rest = [e for e in entries if e.key != "Chip Count"]
    marks_first = next((e.key in _MARKS for e in rest if e.key != "NPU ID"), False)
    npu: Value = None
    blocks: list[list[FieldLine]] = [[]]
    npus: list[Value] = [None]
    keys: set[str] = set()
    ended = False
    for entry in rest:
        if entry.key == "NPU ID":
            npu = _parse_value(entry.key, entry.value)
            if keys:
                blocks.append([])
                npus.append(npu)
                keys, ended = set(), False
            npus[-1] = npu
            continue
        mark = entry.key in _MARKS
        again = entry.key in keys and entry.key != "process"
        if again or (mark and marks_first and keys - _MARKS) or (not mark and not marks_first and ended):
            blocks.append([])
            npus.append(npu)
            keys = set()
        blocks[-1].append(entry)
        keys.add(entry.key)
        ended = mark
    return [(npu, block) for npu, block in zip(npus, blocks, strict=True) if block]


def _read_marks(block: list[FieldLine]) -> dict[str, Any]:
    named = {e.key: e.value for e in block if e.key in _MARKS}
    return {"chip": _parse_value("Chip ID", named.get("Chip ID", "")), "name": named.get("Chip Name")}


def _read_only_npu(entries: list[FieldLine]) -> Value:
    """Return the device of the whole answer; None if its blocks are of several ones."""
    ids = {_parse_value(e.key, e.value) for e in entries if e.key == "NPU ID"}
    return ids.pop() if len(ids) == 1 else None


def _read_chip_count(entries: list[FieldLine]) -> Value:
    return next((_parse_value(e.key, e.value) for e in entries if e.key == "Chip Count"), None)


def _make_fields(block: Iterable[FieldLine]) -> dict[str, Value]:
    return {e.key: _parse_value(e.key, e.value) for e in block}


def _shape_blocks(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    """Return the detail for types without their own format; structure keys (NPU ID, Chip ID, ...) are not in the
    fields."""
    blocks = [
        {"npu": npu, **_read_marks(block), "fields": _make_fields(e for e in block if e.key not in _STRUCTURE)}
        for npu, block in _group_blocks(entries)
    ]
    return {"blocks": blocks, "chip_count": _read_chip_count(entries)}


def _shape_board(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    """Return the detail of a board with all keys; each NPU ID starts a block."""
    blocks: list[dict[str, FieldLine]] = [{}]
    for entry in entries:
        if entry.key in blocks[-1]:
            blocks.append({})
        blocks[-1][entry.key] = entry
    shown = []
    npu: Value = None
    for block in blocks:
        npu = _parse_value("NPU ID", block["NPU ID"].value) if "NPU ID" in block else npu
        marks = _read_marks(list(block.values()))
        helper = (marks["name"] or "").lower() in _HELPERS
        shown.append(
            {
                "npu": npu,
                "chip": marks["chip"],
                "name": marks["name"] if helper else None,
                "fields": _make_fields(block.values()),
            }
        )
    return {"blocks": shown, "chip_count": _read_chip_count(entries)}


def _shape_health(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    """Return the detail with the worst health of all blocks, and all their codes."""
    words = [entry.value for entry in entries if entry.key in ("Health Status", "Health")]
    ranked = sorted(words, key=lambda word: _HEALTH_ORDER.get(word.lower(), _UNLISTED), reverse=True)
    codes = [c for e in entries if e.key == "Error Code" for c in re.split(r"[\s,;]+", " ".join((e.value, *e.more)))]
    told = [line for e in entries if e.key == "Error Information" for line in (e.value, *e.more)]
    return _shape_blocks(kind, entries) | {
        "health": ranked[0] if ranked else None,
        "error_codes": [code for code in codes if code not in _NIL],
        "error_information": [line for line in told if line not in _NIL],
    }


def _shape_list(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    total = next((_parse_value(e.key, e.value) for e in entries if e.key in ("Total Count", "Card Count")), None)
    cards: list[dict[str, Any]] = []
    names = {
        "NPU ID": "npu",
        "Chip Count": "chip_count",
        "Product Name": "product_name",
        "Serial Number": "serial_number",
    }
    for entry in entries:
        if entry.key == "NPU ID":
            cards.append({"npu": None, "chip_count": None, "product_name": None, "serial_number": None})
        if cards and entry.key in names:
            cards[-1][names[entry.key]] = _parse_value(entry.key, entry.value)
    return {"total_count": total, "cards": cards, "truncated": isinstance(total, int) and total > len(cards)}


def _shape_faults(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    lines = [line for e in entries if e.key == "Fault Event Information" for line in (e.value, *e.more)]
    events = []
    for line in lines:
        pairs = [part.split("=", 1) for part in re.split(r",\s*", line) if "=" in part]
        if pairs:
            events.append({key.strip(): _parse_value(key, value.strip()) for key, value in pairs})
    count = next((_parse_value(e.key, e.value) for e in entries if e.key == "Fault Event Count"), None)
    return {"count": count, "events": events}


def _shape_plain(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    return {"fields": _make_fields(entries)}


def _shape_mode(kind: str, entries: list[FieldLine]) -> dict[str, Any]:
    return {"mode": next((_parse_value(e.key, e.value) for e in entries if e.key.lower() == "vnpu-mode"), None)}


_SHAPES = {
    "board": _shape_board,
    "health": _shape_health,
    "list": _shape_list,
    "fault-event": _shape_faults,
    "phyid-remap": _shape_plain,
    "vnpu-mode": _shape_mode,
}

# For a text with single blanks only: a terminal may have wrapped the line, or a web page collapsed it.
_IN_LINE = (
    r"(?i)Process id ?: ?(\d{1,9}) ?Process name ?: ?(.{0,256}?) ?Process memory\(MB\) ?: ?(\d{1,12}|NA)"
    r"|\b(NPU ID|Chip ID|Chip Count) ?: ?(\d{1,9}|NA)\b|(No process) in device"
)
_BROKEN_NUMBER = re.compile(r"(?<=\d)\n(?=\d)")


def read_processes(page: OutputPage) -> Document | None:
    """Parse `-t proc-mem`: three "key:value" pairs on one line per process."""
    if not page.has_any("Process id", "Process ID", "No process in device"):
        return None
    entries: list[FieldLine] = []
    whole = _BROKEN_NUMBER.sub("", page.body)
    for found in re.finditer(_IN_LINE, " ".join(whole.split())):
        if found[6]:
            entries.append(FieldLine(found[6], ""))
        elif found[4]:
            entries.append(FieldLine(found[4], found[5]))
        else:
            entries.append(FieldLine("process", found[1], (found[2], found[3])))
    if not any(entry.key == "process" for entry in entries) and "No process in device" not in page.body:
        return None
    blocks = [
        {"npu": npu, **_read_marks(block), "processes": [_parse_process(e) for e in block if e.key == "process"]}
        for npu, block in _group_blocks(entries)
    ]
    detail: dict[str, Any] = {
        "npu": _read_only_npu(entries),
        "blocks": blocks,
        "chip_count": _read_chip_count(entries),
    }
    if asked := _command_ids(page):
        detail["from_command"] = asked
    return Document(tool=TOOL, kind="proc-mem", detail=detail)


def _parse_process(entry: FieldLine) -> dict[str, Any]:
    return {"pid": int(entry.value), "name": entry.more[0] or None, "mem_mb": _parse_value("", entry.more[1])}
