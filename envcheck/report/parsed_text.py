"""A parsed output as tables for people: devices, processes, topology, fields, errors, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from envcheck.core import language
from envcheck.core.messages import Message, _
from envcheck.core.model import Device, Document, Process
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
        yield from _render_table([[key, value] for key, value in _list_values(document.detail)], [])


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
    words = [f"{document.tool}: {document.command or document.kind}", *(say(text) for text, value in versions if value)]
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


def _list_values(detail: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of the detail by path: blocks.0.fields.Temperature (C)."""
    items = (
        detail.items()
        if isinstance(detail, Mapping)
        else enumerate(detail)
        if isinstance(detail, (list, tuple))
        else ()
    )
    for key, value in items:
        path = f"{prefix}{key}"
        if isinstance(value, (Mapping, list, tuple)):
            yield from _list_values(value, f"{path}.")
        elif value is not None:
            yield path, str(value)
