"""Parses `nvidia-smi -q -x`, schemas v4 to v13, and the XML of ixsmi.

Read device by device, so that a truncated text still gives its complete devices.  The DOCTYPE that nvidia-smi writes is
accepted; entities, which it never declares, are rejected (billion laughs, local files).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring, iterparse

from envcheck.core.messages import mark
from envcheck.core.model import CellRemark, Device, Document, Process
from envcheck.core.tool_text import strip_escapes
from probes.smi import device_cells
from probes.smi.pasted_output import LINE_LIMIT, PastedOutput, cell_value

WHOLE_LIMIT = 1 << 20  # characters of a text whose elements are all kept
ELEMENTS_LIMIT, DEVICES_LIMIT = 500_000, 1024  # 16 MIG cards have 60,000 elements
_ROOT = re.compile(r"<(\w{0,20}smi\w{0,20})\s{0,20}>")
_DOCTYPE = re.compile(r"(?:[^<]|<!)*>[\s>#]*")
_BROKEN_TAG = re.compile(r"<[^<>\n]{0,200}\n")
_STRAY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_MASK = re.compile(r"(?<=>)\s{0,40}<([a-z*?#.]{1,20})>\s{0,80}(?=</(?!\1>))", re.IGNORECASE)  # <uuid><masked></uuid>
_BARE_AMPERSAND = re.compile(r"&(?!#?\w{1,10};)")  # seen in process names

_POWER = ("gpu_power_readings", "power_readings")
# Field of Device → its paths, newest schema first; the first one with a value wins.
_PATHS: Mapping[str, tuple[str, ...]] = {
    "name": ("product_name",),
    "uuid": ("uuid",),
    "bus_id": ("pci/pci_bus_id",),
    "temperature_c": ("temperature/gpu_temp",),
    "fan_percent": ("fan_speed",),
    "power_w": tuple(
        f"{group}/{name}_draw" for group in _POWER for name in ("average_power", "power", "instant_power")
    ),
    "power_limit_w": tuple(f"{group}//{name}power_limit" for group in _POWER for name in ("current_", "", "enforced_")),
    "utilization_percent": ("utilization/gpu_util",),
    "memory_used_mib": ("fb_memory_usage/used", "memory_usage/used"),
    "memory_total_mib": ("fb_memory_usage/total", "memory_usage/total"),
    "clock_sm_mhz": ("clocks/sm_clock", "clocks/cluster_clock"),
    "clock_memory_mhz": ("clocks/mem_clock",),
    "perf_state": ("performance_state",),
    "mig_mode": ("mig_mode/current_mig",),
    "persistence": ("persistence_mode",),
}
_EXTRA = {"serial": "serial", "minor_number": "minor_number", "ecc_mode": "ecc_mode/current_ecc",
          "brand": "product_brand", "compute_mode": "compute_mode", "display_active": "display_active",
          "vbios_version": "vbios_version"}  # fmt: skip
_DEEP = tuple(path for paths in _PATHS.values() for path in paths if "//" in path)


def parse_xml(paste: PastedOutput) -> Document | None:
    """Return the document of kind `xml`, or None if the text has no such root element."""
    if "<" not in paste.raw:
        return None
    is_long = max(map(len, paste.raw.split("\n"))) >= LINE_LIMIT  # the whole document may be on one line
    text = paste.raw if is_long else paste.text
    found = _ROOT.search(text)
    if not found:
        return None
    document = _read_devices(paste, *_extract_body(text, found))
    # Hard wrapping may have broken tags, and their ends look like quotes.
    if document.truncated and (_BROKEN_TAG.search(text) or _BROKEN_TAG.search(paste.raw)):
        for joined in dict.fromkeys(each.replace("\n", "") for each in (text, paste.raw)):
            whole = _read_devices(paste, *_extract_body(joined, found)) if (found := _ROOT.search(joined)) else document
            document = whole if len(whole.devices) > len(document.devices) else document
    return document


def _read_devices(paste: PastedOutput, body: str, closed: bool) -> Document:
    top: dict[str, str | None] = {}
    devices: list[tuple[Device, list[Process], dict[str, Any]]] = []
    remarks: list[CellRemark] = []
    lines = _list_lines(paste)
    try:
        for element in _iterate_elements(body):
            if element.tag == "gpu" and len(devices) == DEVICES_LIMIT:
                closed = False
                break
            if element.tag == "gpu":
                own = lines[len(devices)] if len(devices) < len(lines) else range(0)
                texts = _list_texts(element)
                remarks += _make_remarks(paste, texts, own)
                devices.append(_make_device(element, texts, len(devices)))
            else:
                top[element.tag] = cell_value(element.text)
    except ParseError:
        closed = False
    except DefusedXmlException:
        reason = mark("rejected: the XML declares entities, which the tool never does")
        return Document(paste.tool.name, "unknown", detail={"reason": reason})
    schema = re.search(r"nvsmi_device_(v\d+)\.dtd", body[:400])
    return Document(
        paste.tool.name,
        "xml",
        tool_version=top.get("ixml_version"),
        driver_version=_find_version(top, "driver_version", "kmd_version"),
        cuda_version=_find_version(top, "cuda_version", "cuda_umd_version"),
        truncated=not closed,
        devices=tuple(device for device, _, _ in devices),
        processes=tuple(process for _, processes, _ in devices for process in processes),
        detail={
            "xml_schema": schema[1] if schema else None,
            "timestamp": top.get("timestamp"),
            "attached_gpus": top.get("attached_gpus"),
            "per_device": [extra for _, _, extra in devices],
        },
        remarks=tuple(remarks),
    )


def _make_remarks(paste: PastedOutput, texts: Mapping[str, str | None], lines: range) -> Iterator[CellRemark]:
    """Yield the values of a device that are unreadable, with the lines that have them, 0 for those of one long line."""
    for name, paths in _PATHS.items():
        found = [(path, text) for path in paths if (text := texts.get(path)) is not None]
        path, text = next((each for each in found if cell_value(each[1])), found[0] if found else ("", ""))
        if found and device_cells.is_unreadable(name, text):
            printed = f"<{path.rpartition('/')[2]}>{text}"
            yield CellRemark(next((paste.numbers[at] for at in lines if printed in paste.lines[at]), 0), name, text)


def _list_lines(paste: PastedOutput) -> list[range]:
    """Return the indexes of the lines of each device."""
    starts = [at for at, line in enumerate(paste.lines) if "<gpu id=" in line]
    return [range(start, end) for start, end in pairwise([*starts, len(paste.lines)])]


def _find_version(top: Mapping[str, str | None], *tags: str) -> str | None:
    """Return the version; 610 writes a remark after deprecated values, or instead of them."""
    return next((found[0] for tag in tags if (found := re.match(r"\d[\w.]*", top.get(tag) or ""))), None)


def _extract_body(raw: str, root: re.Match[str]) -> tuple[str, bool]:
    """Return the text from the DOCTYPE or the root to the closing tag, and whether that exists."""
    doctype = raw.rfind("<!DOCTYPE", 0, root.start())
    start = doctype if doctype >= 0 and _DOCTYPE.fullmatch(raw[doctype : root.start()]) else root.start()
    end = raw.find(f"</{root[1]}>", root.end())
    text = strip_escapes(raw[start : end if end >= 0 else None]) + (f"</{root[1]}>" if end >= 0 else "")
    text = _MASK.sub(r"[\1]", _STRAY.sub("", text))
    return _BARE_AMPERSAND.sub("&amp;", text), end >= 0


def _iterate_elements(body: str) -> Iterator[Element]:
    """Yield each child of the root when it is complete; a long or incomplete text is read piece by piece."""
    if len(body) <= WHOLE_LIMIT:
        with suppress(ParseError):
            yield from fromstring(body.encode(), forbid_dtd=False)
            return
    open_elements: list[Element] = []
    events = iterparse(io.BytesIO(body.encode()), events=("start", "end"), forbid_dtd=False)
    for event, element in islice(events, 2 * ELEMENTS_LIMIT):
        if event == "start":
            open_elements.append(element)
            continue
        open_elements.pop()
        if len(open_elements) == 1:
            yield element
            open_elements[0].clear()


def _list_texts(gpu: Element) -> dict[str, str | None]:
    """Return the texts of the elements by path, as `findtext` gives them: it searches the element for each path."""
    texts: dict[str, str | None] = {}
    for child in gpu:
        texts.setdefault(child.tag, child.text or "")
        for inner in child:
            texts.setdefault(f"{child.tag}/{inner.tag}", inner.text or "")
    return texts | {path: gpu.findtext(path) for path in _DEEP if path.partition("/")[0] in texts}


def _make_device(
    gpu: Element, texts: Mapping[str, str | None], index: int
) -> tuple[Device, list[Process], dict[str, Any]]:
    cells = {name: _find_first(texts, paths) for name, paths in _PATHS.items()}
    cells["bus_id"] = cells["bus_id"] or gpu.get("id")
    cells["ecc_uncorrected"] = _find_uncorrected(gpu.find("ecc_errors/volatile"))
    extra: dict[str, Any] = {key: cell_value(texts.get(path)) for key, path in _EXTRA.items()}
    extra["mig_devices"] = [_read_mig_instance(mig) for mig in gpu.findall("mig_devices/mig_device")]
    infos = gpu.findall("processes/process_info") + gpu.findall("compute_processes/process_info")
    return device_cells.make_device(cells, index), [_make_process(info, index) for info in infos], extra


def _find_first(texts: Mapping[str, str | None], paths: tuple[str, ...]) -> str | None:
    return next((value for path in paths if (value := cell_value(texts.get(path)))), None)


def _make_process(info: Element, index: int) -> Process:
    names = {"pid": "pid", "name": "process_name", "memory": "used_memory"}
    return device_cells.make_process({key: info.findtext(tag) for key, tag in names.items()}, index)


def _find_uncorrected(volatile: Element | None) -> str | None:
    """Return the counter: up to v10 double_bit with a total, since then the elements with 'uncorrectable' in their
    names."""
    if volatile is None:
        return None
    double = volatile.find("double_bit")
    if double is None:
        return device_cells.sum_counters([child.text for child in volatile if "uncorrectable" in child.tag])
    whole = cell_value(double.findtext("total"))
    return whole or device_cells.sum_counters([child.text for child in double if child.tag != "total"])


def _read_mig_instance(mig: Element) -> dict[str, str | None]:
    paths = {
        "index": "index",
        "gi": "gpu_instance_id",
        "ci": "compute_instance_id",
        "memory_used": "fb_memory_usage/used",
        "memory_total": "fb_memory_usage/total",
    }
    return {key: cell_value(mig.findtext(path)) for key, path in paths.items()}
