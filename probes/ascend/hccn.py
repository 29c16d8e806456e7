"""Parses `hccn_tool -i N -OPTION -g` (the network port of an NPU): "key:value" lines, events, and the routing table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from envcheck.core.model import Document
from probes.ascend.npu_page import TOOL, OutputPage, parse_pair

_DEVID = re.compile(r"\s*\[dev(?:ice)?(?:[ _]?id)?[ :]*(\d{1,6})\]\s?", re.IGNORECASE)  # [devid 0], [device 0]
_DEV_ID = re.compile(r"\s*dev_id ?: ?(\d{1,6})\b", re.IGNORECASE)
_EVENT = re.compile(r"\s*(?:\d{1,3}\s+)?(\w{3} \w{3}\s+\d{1,2} \d\d:\d\d:\d\d \d{4})\s+LINK\s+(\w+)\s*", re.IGNORECASE)
_SWITCH = re.compile(r"(\w[\w ]{0,40}?)\s*\[(\w{0,12})\]\s*(\([^)]{0,60}\)|days)?")
_SEVERAL = re.compile(r":[^:,]{0,80}, {0,4}[A-Za-z][\w ]{0,40}:")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")
_ROUTE = ("destination", "gateway", "genmask", "flags", "metric", "ref", "use", "iface")
_ORDERED = {"link status": ("up", "down"), "net health status": ("success", "fail")}  # key → good value, bad word
_TITLE = re.compile(r"\W{0,20}(?:npu|device|dev|card|davinci)[ _]?(?:id)?[ _:=]{0,3}(\d{1,6})\W{0,20}", re.IGNORECASE)
_LIMIT = 20_000  # maximum number of fields of one text
_PING = re.compile(r"(\d{1,9}) (packets transmitted), (\d{1,9}) (received), ([\d.]{1,9}%) (packet loss)")

# Option by the keys of its answer, for answers without their command line; compiled only then.
_OPTIONS: tuple[tuple[str, str], ...] = (
    ("-link_stat", r"link (?:up|down) count|link change records"),
    ("-link", r"link status"),
    ("-net_health", r"net health status"),
    ("-netdetect", r"netdetect address"),
    ("-gateway", r"default gateway"),
    ("-ip", r"ipaddr|ip ?address"),
    ("-optical", r"optical info|vendor part number|xsfp|Tx Power\d?|Rx Los"),
    ("-stat", r"packet statistics|(?:roce|mac|nic|net|rdma)_(?:rx|tx|\w+_(?:num|cnt))\w*"),
    ("-fec", r"fec mode"),
    ("-speed", r"(?:current |link )?speed"),
    ("-duplex", r"duplex"),
    ("-mtu", r"mtu(?: size)?"),
    ("-tls", r"tls (?:switch|preconfigured|alarm)"),
    ("-lldp", r"Chassis ID TLV|Ifname|System Name TLV|Port ID TLV"),
    ("-mac", r"mac ?addr(?:ess)?"),
    ("-vnic", r"vnic[ \w]{0,30}"),
    ("-route", r"Routing table"),
    ("-process", r"process info"),
    ("-cdr", r"cdr[ \w]{0,30}"),
    ("-pfc", r"pfc[ \w]{0,30}"),
    ("-dscp_to_tc", r"dscp[ \w]{0,30}"),
    ("-netdetect", r"detect"),
)
_STARTS = (
    r"(?im)^[ \t]*(?:\[dev\w* ?\d+\][ \t]*)?(?:dev_id:\d+, )?(?:"
    + "|".join(pattern for _, pattern in _OPTIONS)
    + r")\s*[:\[\n]"
)


@dataclass
class _PortAnswers:
    """The answers of ports: `blocks` in order, each with its device under `npu`, None if the text does not show it.

    `npu` is the device of the next value, `open` the latest block of each device, `first` each key's first value.
    """

    npu: int | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    open: dict[int | None, dict[str, Any]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    routes: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def store_value(self, key: str, value: Any) -> None:
        self.first.setdefault(key, value)
        block = self.open.get(self.npu)
        if block is None or key in block:
            block = self.add_block()
        block[key] = value
        self.count += 1

    def add_block(self) -> dict[str, Any]:
        """Begin an answer of the current device, and return it."""
        self.blocks.append({"npu": self.npu})
        self.open[self.npu] = self.blocks[-1]
        return self.blocks[-1]


def read_hccn_answer(page: OutputPage) -> Document | None:
    """Return the document of kind `hccn`, or None if the text is not from hccn_tool."""
    return read_hccn_answers([page])


def read_hccn_answers(pages: Sequence[OutputPage]) -> Document | None:
    """Return one document for the answers of several commands, or None if no text is from hccn_tool."""
    own = [page for page in pages if _is_hccn_answer(page)]
    answers = _PortAnswers()
    for page in own:
        _read_page(answers, page)
    if not answers.first and not answers.events and not answers.routes:
        return None
    blocks = answers.blocks
    npus = {each["npu"] for each in (*blocks, *answers.events, *answers.routes)}
    detail: dict[str, Any] = {
        "subcommand": _find_option(own[0], answers.first),
        "fields": answers.first,
        "npu": npus.pop() if len(npus) == 1 else None,
    }
    if len(blocks) > 1:
        detail["answers"] = blocks
        detail["fields"] = {key: _find_worst(key, blocks) for key in answers.first}
    return Document(tool=TOOL, kind="hccn", detail=detail | {"events": answers.events, "routes": answers.routes})


def _is_hccn_answer(page: OutputPage) -> bool:
    if page.command.startswith("hccn_tool"):
        return True
    return page.has_any(":", "TLV", "packet", "LINK") and bool(re.search(_STARTS, page.body + "\n"))


def _read_page(answers: _PortAnswers, page: OutputPage) -> None:
    """Read the answer to one command, or the answers of a loop's commands."""
    asked = re.search(r"\s-i\s+(\d{1,6})\b", page.command)
    usual = int(asked[1]) if asked else None
    answers.open.clear()
    answers.npu = usual
    begin, events = len(answers.blocks), len(answers.events)
    heading = ""
    for line in page.lines:
        marked = _DEVID.match(line) if "[" in line else None
        if marked:
            answers.npu, line = int(marked[1]), line[marked.end() :]
        elif title := _TITLE.fullmatch(line):
            answers.npu = usual = int(title[1])
            continue
        elif line.strip() and not heading:
            answers.npu = usual
        if "LINK" in line.upper() and (found := _EVENT.fullmatch(line)):
            answers.events.append({"npu": answers.npu, "time": found[1], "state": found[2].upper()})
        elif answers.count < _LIMIT:
            heading = _read_line(answers, line, heading)
    routes = _parse_routes(page.lines)
    answers.routes += [{"npu": usual, **route} for route in routes]
    own = answers.blocks[begin:]
    if usual is not None and page.body.strip() and not own and not routes and len(answers.events) == events:
        answers.add_block()  # a port without any value
    elif len(own) == len(page.ids) and all(block["npu"] is None for block in own):
        for block, npu in zip(own, page.ids, strict=True):
            block["npu"] = npu


def _find_worst(key: str, answers: Sequence[Mapping[str, Any]]) -> Any:
    """Return the worst value of a key whose values have an order, else the first value."""
    values = [answer[key] for answer in answers if key in answer]
    if key not in _ORDERED:
        return values[0]
    good, bad = _ORDERED[key]
    words = [str(value).lower() for value in values]
    ranks = [0 if word == good else 2 if bad in word else 1 for word in words]
    return values[ranks.index(max(ranks))]


def _find_option(page: OutputPage, fields: dict[str, Any]) -> str | None:
    if typed := re.search(r"\s(-(?!i\b|g\b|s\b|t\b|h\b)[a-z]\w*)", page.command):
        return typed[1]
    head = (*fields, *(line.strip() for line in page.lines[:40]))
    first = min(map(_find_option_index, head), default=len(_OPTIONS))
    return _OPTIONS[first][0] if first < len(_OPTIONS) else None


@lru_cache(maxsize=1024)  # the ports of a host give the same lines
def _find_option_index(line: str) -> int:
    """Return the position in _OPTIONS of the first option with such a key."""
    found = (at for at, (_, keys) in enumerate(_OPTIONS) if re.search(rf"(?im)^(?:{keys})\b", line))
    return next(found, len(_OPTIONS))


def _read_line(answers: _PortAnswers, line: str, heading: str) -> str:
    """Parse one line; return the heading for the next line."""
    if "packet" in line and (sent := _PING.search(line)):
        for value, key in ((sent[1], sent[2]), (sent[3], sent[4]), (sent[5], sent[6])):
            answers.store_value(key, _parse_value(value))
    elif "[" in line and "]" in line and (found := list(_SWITCH.finditer(line))):
        if dev := _DEV_ID.match(line):
            answers.npu = int(dev[1])
        for key, value, unit in ((m[1], m[2], m[3]) for m in found):
            answers.store_value(key.strip(), _parse_value(value) if unit != "days" else f"{value} days")
        if dev:
            answers.store_value("dev_id", int(dev[1]))
    elif _SEVERAL.search(line):  # several pairs on one line: default gateway:…, Iface:eth0
        for part in line.split(","):
            if one := parse_pair(part, ":"):
                answers.store_value(one[0], _parse_value(one[1]))
    elif one := parse_pair(line, ":"):
        if one[1]:
            answers.store_value(one[0], _parse_value(one[1]))
        return one[0] if not one[1] else ""
    elif line.strip().endswith("TLV"):
        return line.strip()
    elif heading.endswith("TLV") and line.strip():
        answers.store_value(heading, line.strip())
    return ""


def _parse_value(text: str) -> int | float | str | None:
    """Return a plain number as a number, anything else as text."""
    if text in ("", "NA", "N/A", "-"):
        return None
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _parse_routes(lines: tuple[str, ...]) -> list[dict[str, str | None]]:
    """Return the routing table as `route` prints it; `*` means no gateway."""
    columns: list[str] = []
    routes: list[dict[str, str | None]] = []
    for line in lines:
        words = line.split()
        if [word.lower() for word in words[:2]] == ["destination", "gateway"]:
            columns = [word.lower() for word in words]
        elif columns and len(words) == len(columns):
            routes.append(
                {c: None if word == "*" else word for c, word in zip(columns, words, strict=False) if c in _ROUTE}
            )
        elif columns and words:
            columns = []
    return routes


_TLS_SWITCH = re.compile(r"tls switch\s*\[([01])\]", re.IGNORECASE)


def read_tls(text: str) -> int | None:
    """Return 1 if `hccn_tool -tls -g` reports TLS on, 0 for off, None if unknown; without a certificate it is off.

    Source: the HCCL troubleshooting page.
    """
    found = _TLS_SWITCH.search(text)
    return int(found[1]) if found else 0 if "no certificate" in text.lower() else None
