"""Lines "key : value" of npu-smi's answers, also those that a terminal or a paste broke or joined.

Error Information : node type=SoC, ... the text of an error can be longer than the terminal's
                  : and has further lines without a key
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from probes.ascend.npu_page import parse_pair

_WRAPPED = 60  # minimum length of a line whose continuation has no key
_PROMPT = re.compile(r"\s*(?:\([^()]{1,60}\)\s*)?(?:\[[^\]]{1,80}\]\s*[#$%]|\S{1,80}@\S|[#$]\s|```)")
_KNOWN = re.compile(
    r"NPU ID|Chip |Card |Total Count|Product |Serial |Model$|Manufacturer|"
    r".*(?:Usage|Utilization|Rate|Capacity|Temp|Power|Voltage|Error|Err |Bit |Freq|Clock|Count|Version|Compatib|Board|"
    r"PCB|BOM|Slot|Class ID|PCI|Vendor|Device|Die ID|Mode|Health|Flash|Fault|Aicore|License|Enable|Speed|Width|\(\w+\)|"
    r"Location|Area|Customized|work-|HBM|Info|Status)|Message$|SDID$|Super ?Pod|Server Index|VRD ",
    re.IGNORECASE,
)

# A further entry in the line, where the line break between them was lost.
_GLUED = re.compile(
    r"(?<=[\w)])\s*(?=(?:NPU ID|Chip (?:ID|Count|Name)|Health(?: Status)?|Error (?:Code|Information)) *:(?: |$))"
)


@dataclass(frozen=True)
class FieldLine:
    """One line; `more` are its continuation lines."""

    key: str
    value: str
    more: tuple[str, ...] = ()


def collect_entries(lines: Iterable[str], asked: bool) -> list[FieldLine]:
    """Return the lines with known keys and their continuation lines; other text is ignored.

    Below the command itself, unknown keys are accepted too, if they are separated like the tool's: new firmware adds
    keys.
    """
    entries: list[FieldLine] = []
    before = ""  # the previous line, if it is an entry
    is_open = False  # whether a line without a key may go on with the last entry
    for line in _separate_entries(lines):
        if (
            ":" in line
            and (found := parse_pair(line, ":"))
            and (before or (asked and " : " in line) or _KNOWN.match(found[0]))
        ):
            entries.append(FieldLine(*found))
            before, is_open = line, True
        elif is_open and line.lstrip().startswith(":"):
            entries[-1] = _extend_entry(entries[-1], line.strip()[1:].strip())
        elif len(before) >= _WRAPPED and line.strip() and not _PROMPT.match(line):
            last = entries[-1]
            entries[-1] = FieldLine(last.key, last.value + before[len(before.rstrip()) :][:1] + line.strip(), last.more)
            before = line
        else:
            before, is_open = "", is_open and not line.strip()
    return entries


def _separate_entries(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, apart if the line break between two entries was lost."""
    for line in lines:
        begin = 0
        if line.count(":") > 1:
            for found in _GLUED.finditer(line, line.index(":")):
                yield line[begin : found.start()]
                begin = found.end()
        yield line[begin:]


def _extend_entry(entry: FieldLine, line: str) -> FieldLine:
    """Return the entry with a further line; at most 64 are kept."""
    return FieldLine(entry.key, entry.value, (*entry.more, line)[:64])
