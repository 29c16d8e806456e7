"""The output formats that nvidia-smi and ixsmi share, tried in order."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.core.model import Document
from probes.smi import (
    csv_output,
    error_output,
    list_output,
    monitor_output,
    query_text_output,
    table_output,
    topology_output,
)
from probes.smi.pasted_output import PastedOutput, SmiTool, clean_output


def _parse_xml(paste: PastedOutput) -> Document | None:
    from probes.smi import xml_output  # the libraries of XML take as long to import as a table to read

    return xml_output.parse_xml(paste)


# Kind, words of which the text must contain one (a cheap test), and the parser, which returns None for another kind.
# The most distinctive formats are first; errors come after all formats with devices.
KINDS: tuple[tuple[str, tuple[str, ...], Callable[[PastedOutput], Document | None]], ...] = (
    ("xml", ("<",), _parse_xml),
    ("query-text", ("smi log", "product name", "gpu uuid", "driver version"), query_text_output.parse_query_text),
    ("table", ("|",), table_output.parse_table),
    ("topo", ("gpu",), topology_output.parse_topology),
    ("dmon, pmon", ("idx",), monitor_output.parse_monitor),
    ("version", ("version",), list_output.parse_version),
    ("reset", ("successfully reset",), list_output.parse_reset),
    ("nvlink", ("link",), list_output.parse_nvlink),
    ("list", ("uuid:",), list_output.parse_device_list),
    ("csv", (",", "[", "."), csv_output.parse_csv),
    ("log", ("mib",), list_output.parse_log),
    ("error", ("",), error_output.parse_error),
)


def parse_output(tool: SmiTool, text: str) -> Document:
    """Return the document of the first format that matches, else of kind `unknown`."""
    paste = clean_output(tool, text)
    text = paste.lowercase_text
    for _, words, parse_kind in KINDS:
        if any(map(text.__contains__, words)) and (document := parse_kind(paste)):
            return document
    return Document(tool.name, "unknown")
