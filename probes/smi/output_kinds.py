"""The output formats that nvidia-smi and ixsmi share, tried in order."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.core.model import Document
from probes.smi.pasted_output import PastedOutput, SmiTool, clean_output

# Each function imports its module on use: the patterns of all modules take longer to compile than most texts to read.


def _parse_xml(paste: PastedOutput) -> Document | None:
    from probes.smi import xml_output

    return xml_output.parse_xml(paste)


def _parse_query_text(paste: PastedOutput) -> Document | None:
    from probes.smi import query_text_output

    return query_text_output.parse_query_text(paste)


def _parse_table(paste: PastedOutput) -> Document | None:
    from probes.smi import table_output

    return table_output.parse_table(paste)


def _parse_topology(paste: PastedOutput) -> Document | None:
    from probes.smi import topology_output

    return topology_output.parse_topology(paste)


def _parse_monitor(paste: PastedOutput) -> Document | None:
    from probes.smi import monitor_output

    return monitor_output.parse_monitor(paste)


def _parse_version(paste: PastedOutput) -> Document | None:
    from probes.smi import list_output

    return list_output.parse_version(paste)


def _parse_reset(paste: PastedOutput) -> Document | None:
    from probes.smi import list_output

    return list_output.parse_reset(paste)


def _parse_nvlink(paste: PastedOutput) -> Document | None:
    from probes.smi import list_output

    return list_output.parse_nvlink(paste)


def _parse_device_list(paste: PastedOutput) -> Document | None:
    from probes.smi import list_output

    return list_output.parse_device_list(paste)


def _parse_csv(paste: PastedOutput) -> Document | None:
    from probes.smi import csv_output

    return csv_output.parse_csv(paste)


def _parse_log(paste: PastedOutput) -> Document | None:
    from probes.smi import list_output

    return list_output.parse_log(paste)


def _parse_error(paste: PastedOutput) -> Document | None:
    from probes.smi import error_output

    return error_output.parse_error(paste)


# Kind, words of which the text must contain one (a cheap test), and the parser, which returns None for another kind.
# The most distinctive formats are first; errors come after all formats with devices.
KINDS: tuple[tuple[str, tuple[str, ...], Callable[[PastedOutput], Document | None]], ...] = (
    ("xml", ("<",), _parse_xml),
    ("query-text", ("smi log", "product name", "gpu uuid", "driver version"), _parse_query_text),
    ("table", ("|",), _parse_table),
    ("topo", ("gpu",), _parse_topology),
    ("dmon, pmon", ("idx",), _parse_monitor),
    ("version", ("version",), _parse_version),
    ("reset", ("successfully reset",), _parse_reset),
    ("nvlink", ("link",), _parse_nvlink),
    ("list", ("uuid:",), _parse_device_list),
    ("csv", (",", "[", "."), _parse_csv),
    ("log", ("mib",), _parse_log),
    ("error", ("",), _parse_error),
)


def parse_output(tool: SmiTool, text: str) -> Document:
    """Return the document of the first format that matches, else of kind `unknown`."""
    paste = clean_output(tool, text)
    text = paste.lowercase_text
    for _, words, parse_kind in KINDS:
        if any(map(text.__contains__, words)) and (document := parse_kind(paste)):
            return document
    return Document(tool.name, "unknown")
