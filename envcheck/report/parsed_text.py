"""A parsed output as tables for people: devices, processes, topology, fields, errors, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from envcheck.core import language
from envcheck.core.language.width import display_width
from envcheck.core.messages import Message, _
from envcheck.core.model import Device, Document, Process
from envcheck.report.screen import WIDTH_LIMIT
from probes.paste.paste_parser import find_last_listings

ROWS_LIMIT = 200  # rows of one table: a log of days has more than anybody reads
_DEVICE_COLUMNS: tuple[tuple[Message, tuple[str, ...], str], ...] = (
    # head, fields, and how their values are shown
    (_("device"), ("index",), "{}"),
    (_("NPU"), ("npu",), "{}"),
    (_("chip"), ("chip",), "{}"),
    (_("name"), ("name",), "{}"),
    (_("health"), ("health",), "{}"),
    (_("memory"), ("memory_used_mib", "memory_total_mib"), "{} / {} MiB"),
    (_("use"), ("utilization_percent",), "{} %"),
    (_("temperature"), ("temperature_c",), "{} °C"),
    (_("power"), ("power_w",), "{} W"),
    (_("bus id"), ("bus_id",), "{}"),
)
_PROCESS_COLUMNS: tuple[tuple[Message, tuple[str, ...], str], ...] = (
    (_("device"), ("device",), "{}"),
    (_("chip"), ("chip",), "{}"),
    (_("process"), ("pid",), "{}"),
    (_("name"), ("name",), "{}"),
    (_("memory"), ("memory_mib",), "{} MiB"),
)
_UNKNOWN = "?"
_CONTAINERS = (Mapping, list, tuple)
_FIELDS = "fields"  # the values of a block, beside what identifies it
_SAID_ELSEWHERE = ("from_command", "truncated", "columns", "units")  # in the line of the output, or as heads


def render_document(document: Document) -> Iterator[str]:
    """Yield the lines for a terminal: each output, of repeated listings only the last one in full."""
    say = language.translate
    latest = {id(each) for each in find_last_listings(document.parts)}
    for number, part in enumerate(document.parts[:ROWS_LIMIT], 1):
        yield say(_("output {number} of {count}:", number=number, count=len(document.parts)))
        lines = [_describe_output(part)] if part.devices and id(part) not in latest else _render_output(part)
        yield from (f"  {line}".rstrip() for line in lines)
    if len(document.parts) > ROWS_LIMIT:
        yield say(_("... {count} more outputs; --json prints all", count=len(document.parts) - ROWS_LIMIT))
    if not document.parts:
        yield from _render_output(document)
    for remark in document.remarks:
        text = remark.text.strip() or say(_("(blank)"))
        yield say(_("cannot read line {line}, {field}: {text}", line=remark.line, field=remark.field, text=text))


def _render_output(document: Document) -> Iterator[str]:
    yield _describe_output(document)
    if document.devices:
        unread = {remark.field for remark in document.remarks}
        yield from _render_rows(document.devices, _DEVICE_COLUMNS, unread)
    if document.processes:
        yield ""
        yield from _render_rows(document.processes, _PROCESS_COLUMNS, frozenset())
    if document.topology:
        names = document.topology.names
        columns = (*names, *document.topology.nics)
        rows = [
            [name, *(document.topology.matrix.get(name, {}).get(other) or "" for other in columns)] for name in names
        ]
        yield from _render_table(rows, ["", *columns])
    if document.error:
        yield document.error.message
        yield from (text for text in (document.error.meaning, document.error.fix) if text)
    if not (document.devices or document.processes or document.topology or document.error):
        yield from _render_detail(document.detail)


def _describe_output(document: Document) -> str:
    """Return a line with the tool, the kind of output, and where it is from."""
    say = language.translate
    versions = (
        (_("version {version}", version=document.tool_version), document.tool_version),
        (_("driver {version}", version=document.driver_version), document.driver_version),
        (_("CUDA {version}", version=document.cuda_version), document.cuda_version),
        (_("runtime {version}", version=document.runtime_version), document.runtime_version),
        (_("on {host}", host=document.host), document.host),
        (_("incomplete"), document.truncated),
    )
    what = document.command or document.kind
    words = [f"{document.tool}: {what}" if document.tool else what, *(say(text) for text, value in versions if value)]
    return ", ".join(words)


def _render_rows(
    rows: Sequence[Device] | Sequence[Process],
    columns: Sequence[tuple[Message, tuple[str, ...], str]],
    unread: Set[str],
) -> Iterator[str]:
    """Yield a table with those columns of which any row has a value, or a cell that cannot be read."""
    used = [
        column
        for column in columns
        if any(name in unread or any(getattr(row, name) is not None for row in rows) for name in column[1])
    ]
    shown = [
        [
            pattern.format(*(_format_value(getattr(row, name)) for name in names))
            if any(getattr(row, name) is not None for name in names)
            else _UNKNOWN
            for _head, names, pattern in used
        ]
        for row in rows
    ]
    yield from _render_table(shown, [language.translate(head) for head, _names, _pattern in used])


def _format_value(value: Any) -> str:
    return _UNKNOWN if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _render_table(rows: list[list[Any]], heads: list[str]) -> Iterator[str]:
    from tabulate import tabulate

    shown = rows[:ROWS_LIMIT]
    yield from tabulate(shown, heads, tablefmt="plain", disable_numparse=True).splitlines()
    if len(rows) > len(shown):
        yield language.translate(_("... {count} more rows; --json prints all", count=len(rows) - len(shown)))


def _render_detail(detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield single values, then a table for each list of records: blocks, cards, samples."""
    shown = {key: value for key, value in detail.items() if key not in _SAID_ELSEWHERE}
    tables = [found for value in shown.values() if (found := _list_records(value))]
    single = {key: value for key, value in shown.items() if not _list_records(value)}
    pairs = [list(pair) for pair in _list_values(single)]
    pairs = [pair for pair in pairs if not any(_is_in_each(pair, records) for records in tables)]
    yield from _render_table(pairs, [])
    units = {key: unit for key, unit in zip(detail.get("columns", ()), detail.get("units", ()), strict=False) if unit}
    for number, records in enumerate(tables):
        yield from [""] if number or pairs else []
        yield from _render_records(
            [{f"{key} ({units[key]})" if key in units else key: text for key, text in row.items()} for row in records]
        )


def _is_in_each(pair: Sequence[str], records: Sequence[Mapping[str, str]]) -> bool:
    """Return whether each record has the value, so that it need not stand above them."""
    return all(record.get(pair[0]) == pair[1] for record in records)


def _render_records(records: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield a row for each record; where that is too wide, or there is only one, a line for each value."""
    heads = list(dict.fromkeys(key for record in records for key in record))
    lines = list(_render_table([[record.get(head, "") for head in heads] for record in records], heads))
    if len(records) > 1 and max(map(display_width, lines), default=0) <= WIDTH_LIMIT:
        yield from lines
        return
    for number, record in enumerate(records[:ROWS_LIMIT]):
        yield from [""] if number else []
        yield from _render_table([list(pair) for pair in record.items()], [])
    if len(records) > ROWS_LIMIT:
        yield lines[-1]


def _list_records(value: Any) -> list[dict[str, str]]:
    """Return the records of a list of mappings, or of a mapping of mappings (by its keys); [] for other values."""
    if not isinstance(value, _CONTAINERS):
        return []
    items = _list_items(value)
    if not all(isinstance(record, Mapping) for record in items.values()):
        return []
    is_named = isinstance(value, Mapping)
    return [({"": key} if is_named else {}) | dict(_list_values(record)) for key, record in items.items()]


def _list_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a record by name; those inside another by its path: processes.0.pid."""
    for key, value in values.items():
        if isinstance(value, _CONTAINERS) and _is_nested(value):
            yield from _list_values(_list_items(value), prefix if key == _FIELDS else f"{prefix}{key}.")
        elif isinstance(value, _CONTAINERS):
            yield from [(f"{prefix}{key}", ", ".join(map(str, value)))] if value else []
        elif value is not None:
            yield f"{prefix}{key}", str(value)


def _list_items(value: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    return {str(key): each for key, each in (value.items() if isinstance(value, Mapping) else enumerate(value))}


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or any(isinstance(each, _CONTAINERS) for each in value)
