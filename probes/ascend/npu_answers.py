"""Parses `npu-smi` and related tools and files (hccn_tool, npu-list, lspci, version files) into a Document.

The text determines the kind of output: READERS are tried in order, and each returns None for text of another kind.  A
log of several commands is a `session`, parsed part by part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.model import Document
from envcheck.core.tool_text import cell_text
from probes.ascend import hccn, lspci, npu_errors, npu_fields, npu_info, npu_tables, npu_topo, version_files
from probes.ascend.npu_page import TOOL, OutputPage, Reader, join_pages, split_by_command
from probes.paste.paste_parser import describe_part

_VERSION = re.compile(r"\s*npu-smi(?:\s+version)?(?:\s*:\s*|\s+)v?((?:\d|x)[\w.-]*)\s*", re.IGNORECASE)


def read_version(sheet: OutputPage) -> Document | None:
    """Parse `npu-smi -v`."""
    if "npu-smi" not in sheet.body.lower():
        return None
    found = next((m for line in sheet.lines if (m := _VERSION.fullmatch(line))), None)
    return Document(tool=TOOL, kind="version", tool_version=cell_text(found[1])) if found else None


# kind → its reader, from the most to the least distinctive formats
READERS: tuple[tuple[str, Reader], ...] = (
    ("npu-list", npu_tables.read_holders),
    ("vnpu", npu_tables.read_vnpus),
    ("vnpu-template", npu_tables.read_templates),
    ("info", npu_info.read_info_table),
    ("watch", npu_tables.read_watch),
    ("map", npu_tables.read_mapping),
    ("topo", npu_topo.read_topology),
    ("proc-mem", npu_fields.read_processes),
    ("lspci", lspci.read_lspci),
    ("hccn", hccn.read_hccn_answer),
    ("board, usages, common, ...", npu_fields.read_fields),
    ("error", npu_errors.read_error),
    ("driver-version, toolkit-install, ...", version_files.read_version_file),
    ("version", read_version),
)


def parse_answers(text: str) -> Document:
    """Return the parsed text; kind `unknown` if it has no output of these tools. Never raises."""
    parts = split_by_command(text)
    if len(parts) == 1:
        return _read_page(parts[0])
    asked = parts[1:]
    if len(asked) > 1:
        read = [_read_page(part) for part in asked]
        if _is_session(asked, read):
            return _make_session(asked, read)
        if {document.kind for document in read} <= {"hccn", "empty", "unknown"}:
            ports = hccn.read_hccn_answers(parts)
            if ports is not None:
                return ports
    return _read_page(join_pages(parts))


def _read_page(sheet: OutputPage) -> Document:
    for _, reader in READERS:
        if (document := reader(sheet)) is not None:
            return document
    return Document(tool=TOOL, kind="unknown" if sheet.body.strip() else "empty" if sheet.command else "unknown")


def _is_session(parts: Sequence[OutputPage], read: Sequence[Document]) -> bool:
    """Return whether the text is a log: at least two answers of different kinds, or three different options of
    hccn_tool.

    One answer with a file is not a log, nor is a port's address with its routes.
    """
    kinds = {document.kind for document in read} - {"empty", "unknown"}
    options = {d.detail.get("subcommand") for d in read if d.kind == "hccn"}
    answers = [p.command for p, document in zip(parts, read, strict=False) if document.kind not in ("empty", "unknown")]
    files = [command for command in answers if command.startswith("cat ")]
    return len(options) > 2 or (len(kinds) > 1 and (len(parts) > 2 or not files))


def _make_session(parts: Sequence[OutputPage], read: Sequence[Document]) -> Document:
    shown = [describe_part(part.command, document) for part, document in zip(parts, read, strict=False)]
    versions = next((d for d in read if d.tool_version), None)
    first = replace(versions or Document(TOOL, ""), kind="session", detail={"parts": shown})
    return replace(first, truncated=any(d.truncated for d in read))
