"""`npu-smi info -t TYPE` (and -l): "key : value" lines in blocks, one block a chip.

    NPU ID                         : 0
    Chip Count                     : 1

    HBM Usage Rate(%)              : 5
    Chip ID                        : 0

The line that names the chip stands before its block with some types and after it with others, so that the place of the
first such line decides.  Which type it is, the keys tell; the command decides only between types that share keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from envcheck.core.model import Document
from probes.ascend import npu_errors
from probes.ascend.npu_page import TOOL, Page, pair

Value = int | float | str | None

_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")
_WRAPPED = 60  # characters of a line after which a line without a key is its rest
_PROMPT = re.compile(r"\s*(?:\([^()]{1,60}\)\s*)?(?:\[[^\]]{1,80}\]\s*[#$%]|\S{1,80}@\S|[#$]\s|```)")
_NIL = {"", "NA", "N/A", "-", "--"}
# Keys whose values are words even where they look like numbers.
_WORDY = re.compile(
    r"version|serial|name|model|manufacturer$|product|pcb|die id|code|system time|mac|address|bus|mask", re.I
)
_STRUCTURE = ("NPU ID", "Chip Count", "Chip ID", "Chip Name")
_MARKS = {"Chip ID", "Chip Name"}
_HELPERS = ("mcu", "3559", "cpu")  # what else sits on a card: its controller, and the 310's host processor
_KNOWN = re.compile(
    r"NPU ID|Chip |Card |Total Count|Product |Serial |Model$|Manufacturer|"
    r".*(?:Usage|Utilization|Rate|Capacity|Temp|Power|Voltage|Error|Err |Bit |Freq|Clock|Count|Version|Compatib|Board|"
    r"PCB|BOM|Slot|Class ID|PCI|Vendor|Device|Die ID|Mode|Health|Flash|Fault|Aicore|License|Enable|Speed|Width|\(\w+\)|"
    r"Location|Area|Customized|work-|HBM|Info|Status)|Message$|SDID$|Super ?Pod|Server Index|VRD ",
    re.IGNORECASE,
)

# kind → what its keys tell, tried in order; the patterns are searched in the keys joined by newlines.  Compiled when a
# text asks for them, as is _IN_LINE: doctor reads what it asked for itself without.
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


@dataclass(frozen=True)
class Entry:
    """One line, in order; `more` holds the lines that go on under it."""

    key: str
    value: str
    more: tuple[str, ...] = ()


def read(page: Page) -> Document | None:
    """The document of one of these types, or None where no such keys stand."""
    if ":" not in page.body:
        return None
    entries = _region(page.lines, bool(page.asked))
    kind = _kind(page, entries)
    if kind is None:
        return None
    ids = [_value("NPU ID", e.value) for e in entries if e.key == "NPU ID"]
    detail: dict[str, Any] = {"npu": ids[0] if ids else None}
    if asked := _asked(page):
        detail["from_command"] = asked
    return Document(tool=TOOL, kind=kind, detail=detail | _SHAPES.get(kind, _blocks)(kind, entries))


def _asked(page: Page) -> dict[str, int]:
    """Ids that the command line holds."""
    found = dict(re.findall(r"\s-([ic])\s+(\d{1,9})\b", page.command))
    return {name: int(found[letter]) for letter, name in (("i", "npu"), ("c", "chip")) if letter in found}


def _kind(page: Page, entries: list[Entry]) -> str | None:
    keys = "\n".join(entry.key for entry in entries[:200])
    if not keys:
        return None
    told = next((name for name, like in _SIGNATURES if re.search(like, keys, re.IGNORECASE | re.MULTILINE)), None)
    named = {"current-fault-event": "fault-event"}.get(page.asked, page.asked)
    if named and told is None and npu_errors.read(page) is not None:
        return None
    return named if named and (named in _TYPES or told in ("fields", None)) and told != "list" else told


def _region(lines: Iterable[str], asked: bool) -> list[Entry]:
    """The lines with known keys, and what stands directly below such a line; other prose is passed over.

    Where the command that asked stands above, a firmware's new keys are answers as well, set apart as the tool does.
    """
    entries: list[Entry] = []
    before = ""  # the line before, as long as it is one of ours
    for line in lines:
        if (
            ":" in line
            and (found := pair(line, ":"))
            and (before or (asked and " : " in line) or _KNOWN.match(found[0]))
        ):
            entries.append(Entry(*found))
            before = line
        elif before and line.lstrip().startswith(":"):
            entries[-1] = _longer(entries[-1], line.strip()[1:].strip())
        elif len(before) >= _WRAPPED and line.strip() and not _PROMPT.match(line):
            last = entries[-1]
            entries[-1] = Entry(last.key, last.value + before[len(before.rstrip()) :][:1] + line.strip(), last.more)
            before = line
        else:
            before = ""
    return entries


def _longer(entry: Entry, line: str) -> Entry:
    """An entry with a further line; an endless list is kept in part."""
    return Entry(entry.key, entry.value, (*entry.more, line)[:64])


def _value(key: str, text: str) -> Value:
    """Numbers as numbers; versions, ids in hexadecimal and names as they stand."""
    if text in _NIL:
        return None
    if _NUMBER.fullmatch(text) and not _WORDY.search(key):
        return float(text) if "." in text else int(text)
    return text


def _grouped(entries: list[Entry]) -> list[list[Entry]]:
    """The blocks with their marks; a mark stands before its block, or after it, as the first of the text does."""
    rest = [e for e in entries if e.key not in ("NPU ID", "Chip Count")]
    marks_first = bool(rest) and rest[0].key in _MARKS
    blocks: list[list[Entry]] = [[]]
    keys: set[str] = set()
    ended = False
    for entry in rest:
        mark = entry.key in _MARKS
        again = entry.key in keys and entry.key != "process"
        if again or (mark and marks_first and keys - _MARKS) or (not mark and not marks_first and ended):
            blocks.append([])
            keys = set()
        blocks[-1].append(entry)
        keys.add(entry.key)
        ended = mark
    return [block for block in blocks if block]


def _marks(block: list[Entry]) -> dict[str, Any]:
    named = {e.key: e.value for e in block if e.key in _MARKS}
    return {"chip": _value("Chip ID", named.get("Chip ID", "")), "name": named.get("Chip Name")}


def _count(entries: list[Entry]) -> Value:
    return next((_value(e.key, e.value) for e in entries if e.key == "Chip Count"), None)


def _fields(block: Iterable[Entry]) -> dict[str, Value]:
    return {e.key: _value(e.key, e.value) for e in block}


def _blocks(kind: str, entries: list[Entry]) -> dict[str, Any]:
    """Types without a shape of their own; the structure (NPU ID, Chip ID, ...) stands outside the fields."""
    blocks = [
        {**_marks(block), "fields": _fields(e for e in block if e.key not in _STRUCTURE)} for block in _grouped(entries)
    ]
    return {"blocks": blocks, "chip_count": _count(entries)}


def _board(kind: str, entries: list[Entry]) -> dict[str, Any]:
    """A board keeps every key; each NPU ID begins a block."""
    blocks: list[dict[str, Entry]] = [{}]
    for entry in entries:
        if entry.key in blocks[-1]:
            blocks.append({})
        blocks[-1][entry.key] = entry
    shown = []
    for block in blocks:
        marks = _marks(list(block.values()))
        helper = (marks["name"] or "").lower() in _HELPERS
        shown.append(
            {"chip": marks["chip"], "name": marks["name"] if helper else None, "fields": _fields(block.values())}
        )
    return {"blocks": shown, "chip_count": _count(entries)}


def _health(kind: str, entries: list[Entry]) -> dict[str, Any]:
    shape = _blocks(kind, entries)
    by_key = {entry.key: entry for entry in reversed(entries)}
    word = by_key.get("Health Status") or by_key.get("Health")
    code, told = by_key.get("Error Code"), by_key.get("Error Information")
    codes = [c for c in re.split(r"[\s,;]+", " ".join((code.value, *code.more))) if c not in _NIL] if code else []
    words = [line for line in (told.value, *told.more) if line not in _NIL] if told else []
    return shape | {"health": word.value if word else None, "error_codes": codes, "error_information": words}


def _list(kind: str, entries: list[Entry]) -> dict[str, Any]:
    total = next((_value(e.key, e.value) for e in entries if e.key in ("Total Count", "Card Count")), None)
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
            cards[-1][names[entry.key]] = _value(entry.key, entry.value)
    return {"total_count": total, "cards": cards, "truncated": isinstance(total, int) and total > len(cards)}


def _faults(kind: str, entries: list[Entry]) -> dict[str, Any]:
    lines = [line for e in entries if e.key == "Fault Event Information" for line in (e.value, *e.more)]
    events = []
    for line in lines:
        pairs = [part.split("=", 1) for part in re.split(r",\s*", line) if "=" in part]
        if pairs:
            events.append({key.strip(): _value(key, value.strip()) for key, value in pairs})
    count = next((_value(e.key, e.value) for e in entries if e.key == "Fault Event Count"), None)
    return {"count": count, "events": events}


def _plain(kind: str, entries: list[Entry]) -> dict[str, Any]:
    return {"fields": _fields(entries)}


def _mode(kind: str, entries: list[Entry]) -> dict[str, Any]:
    return {"mode": next((_value(e.key, e.value) for e in entries if e.key.lower() == "vnpu-mode"), None)}


_SHAPES = {
    "board": _board,
    "health": _health,
    "list": _list,
    "fault-event": _faults,
    "phyid-remap": _plain,
    "vnpu-mode": _mode,
}

# In a text whose blanks are all single: a terminal may have broken the line, or a page collapsed it.
_IN_LINE = (
    r"(?i)Process id ?: ?(\d{1,9}) ?Process name ?: ?(.{0,256}?) ?Process memory\(MB\) ?: ?(\d{1,12}|NA)"
    r"|\b(NPU ID|Chip ID|Chip Count) ?: ?(\d{1,9}|NA)\b|(No process) in device"
)
_BROKEN_NUMBER = re.compile(r"(?<=\d)\n(?=\d)")


def processes(page: Page) -> Document | None:
    """`-t proc-mem`: three "key:value" on one line for each process."""
    if not page.has("Process id", "Process ID", "No process in device"):
        return None
    entries: list[Entry] = []
    whole = _BROKEN_NUMBER.sub("", page.body)
    for found in re.finditer(_IN_LINE, " ".join(whole.split())):
        if found[6]:
            entries.append(Entry(found[6], ""))
        elif found[4]:
            entries.append(Entry(found[4], found[5]))
        else:
            entries.append(Entry("process", found[1], (found[2], found[3])))
    if not any(entry.key == "process" for entry in entries) and "No process in device" not in page.body:
        return None
    blocks = [
        {**_marks(block), "processes": [_one(e) for e in block if e.key == "process"]} for block in _grouped(entries)
    ]
    ids = [_value("", e.value) for e in entries if e.key == "NPU ID"]
    detail: dict[str, Any] = {"npu": ids[0] if ids else None, "blocks": blocks, "chip_count": _count(entries)}
    if asked := _asked(page):
        detail["from_command"] = asked
    return Document(tool=TOOL, kind="proc-mem", detail=detail)


def _one(entry: Entry) -> dict[str, Any]:
    return {"pid": int(entry.value), "name": entry.more[0] or None, "mem_mb": _value("", entry.more[1])}
