"""What nvidia-smi and ixsmi have in common: the kinds of their output, tried in order."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.core.model import Document
from probes.smi import smi_csv, smi_errors, smi_lists, smi_monitor, smi_query_text, smi_table, smi_topo, smi_xml
from probes.smi.smi_paste import Paste, Tool, undress

# Kind, words of which one must stand in the text (cheap, so that junk is answered quickly), and its parser, which
# answers None where the text is of another kind.  The surest marks stand first; a complaint comes after all that shows
# devices by itself, a log, which has no marks at all, last.
KINDS: tuple[tuple[str, tuple[str, ...], Callable[[Paste], Document | None]], ...] = (
    ("xml", ("smi", "ixml"), smi_xml.parse),
    ("query-text", ("smi log", "product name", "gpu uuid", "driver version"), smi_query_text.parse),
    ("table", ("|",), smi_table.parse),
    ("topo", ("gpu",), smi_topo.parse),
    ("dmon, pmon", ("idx",), smi_monitor.parse),
    ("version", ("version",), smi_lists.version),
    ("reset", ("successfully reset",), smi_lists.reset),
    ("nvlink", ("link",), smi_lists.nvlink),
    ("list", ("uuid:",), smi_lists.listed),
    ("csv", (",", "[", "."), smi_csv.parse),
    ("error", ("",), smi_errors.parse),
    ("log", ("mib",), smi_lists.log),
)


def parse(tool: Tool, text: str) -> Document:
    paste = undress(tool, text)
    for _, words, parse_kind in KINDS:
        if any(word in paste.lowered for word in words) and (document := parse_kind(paste)):
            return document
    return Document(tool.name, "unknown")
