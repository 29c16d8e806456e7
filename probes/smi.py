"""What nvidia-smi and ixsmi have in common: the kinds of their output, tried in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envcheck.model import Document
from probes import smi_csv, smi_errors, smi_lists, smi_monitor, smi_query_text, smi_table, smi_topo, smi_xml
from probes.smi_paste import Paste, Tool, undress

# Kind → its parser, which answers None where the text is of another kind.  The surest marks stand first; a complaint
# comes after all that shows devices by itself, a log, which has no marks at all, last.
KINDS: Mapping[str, Callable[[Paste], Document | None]] = {
    "xml": smi_xml.parse,
    "query-text": smi_query_text.parse,
    "table": smi_table.parse,
    "topo": smi_topo.parse,
    "dmon, pmon": smi_monitor.parse,
    "version": smi_lists.version,
    "reset": smi_lists.reset,
    "nvlink": smi_lists.nvlink,
    "list": smi_lists.listed,
    "csv": smi_csv.parse,
    "error": smi_errors.parse,
    "log": smi_lists.log,
}


def parse(tool: Tool, text: str) -> Document:
    paste = undress(tool, text)
    found = (document for parse_kind in KINDS.values() if (document := parse_kind(paste)))
    return next(found, Document(tool.name, "unknown"))
