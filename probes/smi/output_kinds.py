"""The output formats that nvidia-smi and ixsmi share, tried in order."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

from envcheck.core.model import Document
from probes.smi.pasted_output import PastedOutput, SmiTool, clean_output

# Kind, words of which the text must contain one (a cheap test), and the parser, which returns None for another kind.
# The most distinctive formats are first; errors come after all formats with devices.  Modules are imported on use: the
# patterns of all take longer to compile than most texts to read.
KINDS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("xml", ("<",), "xml_output.parse_xml"),
    ("query-text", ("smi log", "product name", "gpu uuid", "driver version"), "query_text_output.parse_query_text"),
    ("table", ("|",), "table_output.parse_table"),
    ("topo", ("gpu",), "topology_output.parse_topology"),
    ("dmon, pmon", ("idx",), "monitor_output.parse_monitor"),
    ("version", ("version",), "list_output.parse_version"),
    ("reset", ("successfully reset",), "list_output.parse_reset"),
    ("nvlink", ("link",), "list_output.parse_nvlink"),
    ("list", ("uuid:",), "list_output.parse_device_list"),
    ("csv", (",", "[", "."), "csv_output.parse_csv"),
    ("log", ("mib",), "list_output.parse_log"),
    ("error", ("",), "error_output.parse_error"),
)


def parse_output(tool: SmiTool, text: str) -> Document:
    """Return the document of the first format that matches, else of kind `unknown`."""
    paste = clean_output(tool, text)
    text = paste.lowercase_text
    for _, words, name in KINDS:
        if any(map(text.__contains__, words)) and (document := _load_parser(name)(paste)):
            return document
    return Document(tool.name, "unknown")


@cache
def _load_parser(name: str) -> Callable[[PastedOutput], Document | None]:
    module, _, function = name.partition(".")
    loaded = importlib.import_module(f"probes.smi.{module}")
    parser: Callable[[PastedOutput], Document | None] = getattr(loaded, function)
    return parser
