"""Parses xpu_smi (also installed as xpu-smi) of Kunlunxin: drivers 3.x and 4.x, and 5.x, which follows nvidia-smi.

Intel ships another program named xpu-smi; its output is of kind `unknown`, with the reason in `detail`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from envcheck.core.model import Document
from probes.kunlunxin import foreign_output, machine_lines, old_tables, runtime_errors, short_outputs
from probes.paste.line_decorations import strip_decorations
from probes.smi import list_output, query_text_output, table_output, topology_output, xml_output
from probes.smi.pasted_output import PastedOutput, SmiTool, clean_output

TOOL = "xpu-smi"
# Where the formats have GPU: heads of the tables, keys of -q, and XML tags; never names, paths or command lines.
_OWN_WORDS = (
    (r"(?<=\|)(\s{1,4})XPU(?=\s{1,8}(?:Name|[GX]I|PID)\b)", r"\1GPU"),
    (r"\bXPU(?=-Util\b|\s{1,2}Memory\s{0,6}(?:\||$)|\s{1,2}Name\s{4})", "GPU"),
    (r"\bXI(?=\s{1,9}CI\s{1,20}PID)", "GI"),
    (r"(?m)^([^\S\n]{0,80})X(?:PU|pu)(?=[^\S\n]{1,4}[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:)", r"\1GPU"),
    (r"(?m)^([^\S\n]{0,80}(?:Used |Attached )?)X(?:PU|pu)(?=s?(?: [A-Z][^:|\n]{1,40})?[^\S\n]{0,60}:)", r"\1GPU"),
    (r"(</?)xpu(?=[ >]|_(?:util|temp)>)", r"\1gpu"),
    (r"(</?attached_)xpu(?=s>)", r"\1gpu"),
)
_PLAIN = SmiTool(
    TOOL,
    banner=r"XPU-SMI",
    management=r"xpuml|libxpuml[\w.]{0,8}|xpurt|libxpurt[\w.]{0,8}",
    runtime=r"XPU-RT Version",
    program=r"xpu[-_]smi",
    unit="xpu",
)
_AS_SMI = replace(_PLAIN, own_words=_OWN_WORDS, accepts_fragments=True)
_L3_ROW = re.compile(r"\|\s{8,60}\|\s{0,40}\d{1,9}MiB\s{0,8}/(?!.{0,80}%)")
_OWN_KINDS = (
    old_tables.parse_old_tables,
    machine_lines.parse_machine_lines,
    short_outputs.parse_link_states,
    short_outputs.parse_device_list,
)
_SHARED_KINDS = (xml_output.parse_xml, query_text_output.parse_query_text, table_output.parse_table)


def parse_outputs(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    text = strip_decorations(text)
    plain = clean_output(_PLAIN, text)
    document = _parse_first(_OWN_KINDS, plain) or _parse_topology(plain)
    if document:
        return document
    if foreign_output.is_intel_output(plain.text) and not runtime_errors.has_shell_error(plain):
        return Document(TOOL, "unknown", detail={"reason": foreign_output.INTEL_REASON})
    if foreign_output.is_other_output(plain.text):
        return Document(TOOL, "unknown")
    shared = clean_output(_AS_SMI, text)
    is_named = foreign_output.has_kunlunxin_word(plain.text)
    document = _parse_first(_SHARED_KINDS, shared) if is_named else None
    if document and (document.devices or document.kind != "unknown"):
        return document
    return (
        runtime_errors.parse_runtime_error(plain)
        or short_outputs.parse_versions(plain)
        or (list_output.parse_log(_drop_l3_rows(shared)) if is_named or "|" not in plain.text else None)
        or document
        or Document(TOOL, "unknown")
    )


def _parse_first(kinds: tuple[Callable[[PastedOutput], Document | None], ...], paste: PastedOutput) -> Document | None:
    return next((document for parse_kind in kinds if (document := parse_kind(paste))), None)


def _drop_l3_rows(paste: PastedOutput) -> PastedOutput:
    """Return the paste with blanks for the rows of the L3 cache, which have the form of those of the memory."""
    return replace(paste, lines=tuple("" if _L3_ROW.search(line) else line for line in paste.lines))


def _parse_topology(paste: PastedOutput) -> Document | None:
    """Parse `topo -m`; it may have columns of NICs without rows."""
    document = topology_output.parse_topology(paste)
    if (
        document is None
        or document.topology is None
        or not all(n.startswith(("XPU", "OAM")) for n in document.topology.names)
    ):
        return None
    return replace(document, truncated=any(name not in document.topology.matrix for name in document.topology.names))
