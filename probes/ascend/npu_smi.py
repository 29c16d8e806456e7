"""`npu-smi` and its kin (hccn_tool, npu-list, lspci, the driver's and toolkit's files): text → what it says.

Pure: opens nothing, runs nothing.  What kind of output it is, the text tells: READERS are tried in order, and each
answers None for what it does not know.  A log of several commands is a `session`, read part by part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from envcheck.core.model import Document
from envcheck.core.text import said
from probes.ascend import ascend_files, hccn, lspci, npu_errors, npu_fields, npu_info, npu_tables, npu_topo
from probes.ascend.npu_page import TOOL, Page, Reader, chapters, page

__all__ = ["READERS", "TOOL", "parse"]

_VERSION = re.compile(r"\s*npu-smi(?:\s+version)?\s*[: ]\s*v?((?:\d|x)[\w.-]*)\s*", re.IGNORECASE)


def version(sheet: Page) -> Document | None:
    """`npu-smi -v`."""
    if "npu-smi" not in sheet.body.lower():
        return None
    found = next((m for line in sheet.lines if (m := _VERSION.fullmatch(line))), None)
    return Document(tool=TOOL, kind="version", tool_version=said(found[1])) if found else None


# kind → its reader, from the layouts that cannot be mistaken to those that are little more than words
READERS: tuple[tuple[str, Reader], ...] = (
    ("npu-list", npu_tables.holders),
    ("vnpu", npu_tables.vnpus),
    ("vnpu-template", npu_tables.templates),
    ("info", npu_info.read),
    ("watch", npu_tables.watch),
    ("map", npu_tables.mapping),
    ("topo", npu_topo.read),
    ("proc-mem", npu_fields.processes),
    ("lspci", lspci.read),
    ("hccn", hccn.read),
    ("board, usages, common, ...", npu_fields.read),
    ("error", npu_errors.read),
    ("driver-version, toolkit-install, ...", ascend_files.read),
    ("version", version),
)


def parse(text: str) -> Document:
    """What the text says; kind `unknown` where it holds nothing of these tools."""
    parts = chapters(text)
    if len(parts) == 1:
        return _read(parts[0])
    asked = parts[1:]
    if len(asked) > 1:
        read = [_read(part) for part in asked]
        if _is_session(asked, read):
            return _session(asked, read)
    lines = [line for part in parts for line in part.lines]
    command = next((part.command for part in asked if part.body.strip()), asked[0].command)
    return _read(page(lines, command, parts[-1].cut))


def _read(sheet: Page) -> Document:
    for _, reader in READERS:
        if (document := reader(sheet)) is not None:
            return document
    return Document(tool=TOOL, kind="unknown" if sheet.body.strip() else "empty" if sheet.command else "unknown")


def _is_session(parts: Sequence[Page], read: Sequence[Document]) -> bool:
    """A log: at least two answers of unlike tools or types, or three of one tool that tell of unlike things.

    One answer and a file beside it is not yet a log, nor is a port's address with its routes.
    """
    kinds = {document.kind for document in read} - {"empty", "unknown"}
    options = {d.detail.get("subcommand") for d in read if d.kind == "hccn"}
    answers = [p.command for p, document in zip(parts, read, strict=False) if document.kind not in ("empty", "unknown")]
    files = [command for command in answers if command.startswith("cat ")]
    return len(options) > 2 or (len(kinds) > 1 and (len(parts) > 2 or not files))


def _session(parts: Sequence[Page], read: Sequence[Document]) -> Document:
    shown = [_part(part, document) for part, document in zip(parts, read, strict=False)]
    versions = next((d for d in read if d.tool_version), None)
    first = replace(versions or Document(TOOL, ""), kind="session", detail={"parts": shown})
    return replace(first, truncated=any(d.truncated for d in read))


def _part(part: Page, document: Document) -> dict[str, Any]:
    """One command's answer: its kind, and what it says under the names that its own document would use."""
    told: dict[str, Any] = {"command": part.command, "kind": document.kind}
    for name in ("tool_version", "driver_version"):
        if (value := getattr(document, name)) is not None:
            told[name] = value
    if document.error is not None:
        told |= {"category": document.error.category, "code": document.error.code, "message": document.error.message}
    if document.topology is not None:
        told["devices"] = list(document.topology.devices)
    blocks = document.detail.get("blocks") or [{}]
    return told | {"fields": blocks[0].get("fields", {}), **document.detail}
