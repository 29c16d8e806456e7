"""Reads any pasted text: one output of one tool, or a session of several outputs, tools and hosts.

Pure: the caller gives the parsers.  A session lists the devices of the last complete listing of each host and tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from envcheck.core.model import CellRemark, Document
from probes.paste.line_decorations import strip_decorations
from probes.paste.output_forms import OutputForms
from probes.paste.text_parts import PartSplitter, TextPart, cut_after_output, separate_hosts

NOTHING = ("unknown", "empty")  # kinds of text without an output
WHOLE_LIMIT = 1 << 18  # characters read of a text in which no line begins an output
PART_LIMIT = 4 << 20  # of one output whose lines look like other text: -q -x of 16 MIG cards has 30,000 lines


@dataclass(frozen=True)
class ToolParser:
    """The parser of one tool: how its outputs begin, and the function that reads one."""

    forms: OutputForms
    parse: Callable[[str], Document]


def load_parser(tool: str, module: ModuleType) -> ToolParser:
    """Return the parser of a module with `parse(text)` and, if the tool shares a text with others, `FORMS`."""
    return ToolParser(getattr(module, "FORMS", OutputForms(re.escape(tool), ())), module.parse)


def make_splitter(parsers: Mapping[str, ToolParser]) -> PartSplitter:
    """Return the splitter for the outputs of these tools."""
    return PartSplitter({name: each.forms for name, each in parsers.items()})


def parse_paste(text: str, parsers: Mapping[str, ToolParser], tool: str | None = None) -> Document:
    """Return the document of all outputs in the text, or only of those of one tool.  Never raises."""
    splitter = make_splitter(parsers)
    hosts = [(host, strip_decorations(own)) for host, own in separate_hosts(text)]
    parts = [part for host, own in hosts for part in splitter.split_lines(own.split("\n"), host)]
    text = "\n".join(own for _, own in hosts)
    begun = [part for part in parts if part.tools]
    if len(begun) < 2 and not (begun and (parts[0].text.strip() or len(text) > WHOLE_LIMIT)):
        return _parse_whole(text, begun, parsers, tool)
    read = _parse_parts(parts, parsers, tool)
    own = {document.tool for _, document in read}
    if len(read) < 2:
        others = tool is not None and any(tool not in part.tools for part in begun)
        return (
            read[0][1]
            if read and (others or len(text) > WHOLE_LIMIT)
            else _parse_whole(text, [p for p, _ in read] or begun, parsers, tool)
        )
    return _join_documents(read) if len(own) > 1 else _join_outputs(read, text, parsers)


def _parse_whole(text: str, begun: Sequence[TextPart], parsers: Mapping[str, ToolParser], tool: str | None) -> Document:
    """Parse the text as one output, by each tool that may have printed it."""
    text, left_out = _limit_text(text, WHOLE_LIMIT)
    if tool is not None:
        return note_left_out(parsers[tool].parse(text), left_out)
    named = begun[0].tools if begun else ()
    order = sorted(parsers, key=lambda name: (name not in named, *_rank_tool(parsers[name].forms, text)))
    unknown = Document("", "unknown")
    documents = (parsers[name].parse(text) for name in order)
    best = next((document for document in documents if document.kind not in NOTHING), unknown)
    if best is unknown:
        return unknown
    best = note_left_out(best, left_out)
    return replace(best, command=begun[0].command, host=begun[0].host) if begun else best


def _limit_text(text: str, limit: int) -> tuple[str, int]:
    """Return the beginning and the end of a text above the limit, and how many characters are between them."""
    if len(text) <= limit:
        return text, 0
    begin, end = text.rfind("\n", 0, limit // 2) + 1, text.find("\n", len(text) - limit // 2) + 1
    return text[:begin] + text[end:], end - begin


def note_left_out(document: Document, count: int) -> Document:
    """Return the document with a remark that characters of the text were not read."""
    if not count or document.kind in NOTHING:
        return document
    return replace(document, remarks=(*document.remarks, CellRemark(0, "text", f"... {count} characters ...")))


def _rank_tool(forms: OutputForms, text: str) -> tuple[bool, ...]:
    """Return the key to sort tools by: with a hint in the text, then those whose formats others have."""
    return not forms.hint_pattern.search(text), bool(forms.follows), not forms.shared


def _parse_parts(
    parts: Sequence[TextPart], parsers: Mapping[str, ToolParser], tool: str | None
) -> list[tuple[TextPart, Document]]:
    """Return the parts that hold an output, with their documents."""
    read: list[tuple[TextPart, Document]] = []
    before = next((_prefer_original(part.tools, parsers) for part in parts if part.tools), "")
    for part in parts:
        choice = _choose_tool(part, parsers, tool or before)
        if not choice or (tool is not None and choice != tool):
            continue
        document = parsers[choice].parse(cut_after_output(part)[:PART_LIMIT])
        if document.kind in NOTHING or not (part.tools or document.devices or document.topology):
            continue
        before = choice
        read.append((part, replace(document, command=part.command, host=part.host)))
    return read


def _choose_tool(part: TextPart, parsers: Mapping[str, ToolParser], usual: str) -> str:
    """Return the tool of a part: of similar tools the one that the words hint at, else the usual one."""
    if len(part.tools) == 1:
        return part.tools[0]
    candidates = part.tools or (usual,)
    hinted = [name for name in candidates if parsers[name].forms.hint_pattern.search(part.text)]
    if len(hinted) == 1:
        return hinted[0]
    return usual if usual in candidates else _prefer_original(candidates, parsers)


def _prefer_original(tools: Sequence[str], parsers: Mapping[str, ToolParser]) -> str:
    """Return the tool whose formats the others have."""
    return min(tools, key=lambda name: bool(parsers[name].forms.follows))


def _join_outputs(read: Sequence[tuple[TextPart, Document]], text: str, parsers: Mapping[str, ToolParser]) -> Document:
    """Join outputs of one tool, unless its parser reads them as one: a port's options, or an output with a file."""
    joined = _join_documents(read)
    outputs = [document for part, document in read if part.command or part.form != "file"]
    if len(outputs) > 1 and (any(d.devices for d in outputs[1:]) or len({d.host for d in outputs}) > 1):
        return joined
    one = parsers[joined.tool].parse(text)
    if one.kind == "session":
        return replace(joined, detail=one.detail)
    kinds = {document.kind for document in outputs}
    return one if kinds <= {one.kind} and (len(outputs) < 2 or kinds == {"hccn"}) else joined


def _join_documents(read: Sequence[tuple[TextPart, Document]]) -> Document:
    documents = tuple(document for _, document in read)
    tools = {document.tool for document in documents}
    listed = find_last_listings(documents)
    versions = next((d for d in documents if d.tool_version), documents[0]) if len(tools) == 1 else Document("", "")
    return Document(
        tool=versions.tool,
        kind="session",
        tool_version=versions.tool_version,
        driver_version=versions.driver_version,
        truncated=any(document.truncated for document in documents),
        remarks=tuple(remark for document in documents for remark in document.remarks),
        devices=tuple(device for document in listed for device in document.devices),
        processes=tuple(process for document in listed for process in document.processes),
        detail={"parts": [describe_part(document.command, document) for document in documents]},
        parts=documents,
    )


def find_last_listings(documents: Iterable[Document]) -> list[Document]:
    """Return the last complete listing of each host and tool, or the last one where none is complete."""
    last: dict[tuple[str, str], Document] = {}
    for document in documents:
        key = (document.host, document.tool)
        if document.devices and (key not in last or _is_complete(document) or not _is_complete(last[key])):
            last[key] = document
    return list(last.values())


def _is_complete(document: Document) -> bool:
    """Return whether the document lists whole devices, not some values of each, as -L or -q -d TEMPERATURE does."""
    return not document.truncated and all(each.name and each.memory_total_mib for each in document.devices)


def describe_part(command: str, document: Document) -> dict[str, Any]:
    """Return one command's answer: its kind, and its data under the names of its own document."""
    entry: dict[str, Any] = {"command": command, "kind": document.kind}
    for name in ("tool_version", "driver_version"):
        if (value := getattr(document, name)) is not None:
            entry[name] = value
    if document.error is not None:
        entry |= {"category": document.error.category, "code": document.error.code, "message": document.error.message}
    if document.topology is not None:
        entry["devices"] = list(document.topology.devices)
    blocks = document.detail.get("blocks") or [{}]
    return entry | {"fields": blocks[0].get("fields", {}), **document.detail}
