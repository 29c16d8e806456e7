"""Reads any pasted text: one output of one tool, or a session of several outputs, tools and hosts.

Pure: the caller gives the parsers.  A session lists the devices of the last complete listing of each host and tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import ModuleType
from typing import Any

from envcheck.core.model import CellRemark, Document, replace_values
from probes.paste.folded_rows import join_folded_rows
from probes.paste.host_marks import HostText, separate_hosts
from probes.paste.line_decorations import strip_decorations
from probes.paste.output_forms import FOREIGN, OutputForms
from probes.paste.text_parts import PartSplitter, TextPart, cut_after_output, drop_markdown_tables
from probes.paste.wrapped_lines import join_wrapped_lines

NOTHING = ("unknown", "empty")  # kinds of text without an output
WHOLE_LIMIT = 1 << 18  # characters of a text that is read as a whole where no line begins an output
ENDS_LIMIT, ENDS_LINES = 1 << 16, 1000  # characters of a longer one, and lines at each end, that all parsers read
_WHOLE_KINDS = ("info", "table", "machine")  # kinds of output that have all values of each device
_NAMED_KINDS = ("query-text", "xml")  # those that have the names unless they have only chosen values
_JOINED_KINDS = ("hccn",)  # kinds that answer one question in several commands
_SELECTION = re.compile(r"\s(?:-i|--id)[ =]?([\w,:.-]+)")
PART_LIMIT = 4 << 20  # of one output whose lines look like other text: -q -x of 16 MIG cards has 30,000 lines


@dataclass(frozen=True)
class ToolParser:
    """The parser of one tool: how its outputs begin, and the function that reads one."""

    forms: OutputForms
    parse: Callable[[str], Document]


def load_parser(tool: str, module: ModuleType) -> ToolParser:
    """Return the parser of a module with `parse(text)` and, if the tool shares a text with others, `FORMS`."""
    return ToolParser(getattr(module, "FORMS", OutputForms(re.escape(tool), (), program_words=(tool,))), module.parse)


def make_splitter(parsers: Mapping[str, ToolParser]) -> PartSplitter:
    """Return the splitter for the outputs of these tools."""
    return PartSplitter({name: each.forms for name, each in parsers.items()})


def parse_paste(
    text: str, parsers: Mapping[str, ToolParser], tool: str | None = None, splitter: PartSplitter | None = None
) -> Document:
    """Return the document of all outputs in the text, or only of those of one tool.  Never raises.

    Remarks have the numbers of the text's lines.  `splitter` is that of these parsers, where the caller has it.
    """
    splitter = splitter or make_splitter(parsers)
    text = "" if text.isspace() else text
    hosts = [
        join_wrapped_lines(_strip_host(each), splitter.begins_output, splitter.is_command)
        for each in separate_hosts(join_folded_rows(text))
    ]
    parts = [(part, each) for each in hosts for part in splitter.split_lines(each.lines, each.host)]
    text = "\n".join(hosts[0].lines if len(hosts) == 1 else [line for each in hosts for line in each.lines])
    numbers = [number for each in hosts for number in each.numbers] if len(hosts) > 1 else hosts[0].numbers
    foreign = [part for part, _ in parts if part.form == FOREIGN]
    parts = [each for each in parts if each[0].form != FOREIGN]
    begun = [part for part, _ in parts if part.tools]
    is_titled = len(parts) > len(begun) + 1
    if not begun and foreign:
        return _explain_foreign(foreign[0], parsers)
    if (
        len(begun) < 2
        and not foreign
        and not (begun and (is_titled or parts[0][0].text.strip() or len(text) > WHOLE_LIMIT))
    ):
        return _number_remarks(_parse_whole(text, begun, parsers, tool), numbers)
    answers = _parse_parts(parts, parsers, tool)
    read = list(_join_answers([each for each in answers if each[1].kind not in NOTHING], parsers))
    if len(read) > 1:
        return _join_documents(read, answers)
    if read:
        return read[0][1]
    if foreign:
        return _explain_foreign(foreign[0], parsers)
    return _number_remarks(_parse_whole(text, begun, parsers, tool), numbers)


def _strip_host(given: HostText) -> HostText:
    """Return the lines of a host without decorations."""
    text = "\n".join(given.lines)
    stripped = strip_decorations(text)
    if stripped == text:
        return given
    lines = stripped.split("\n")
    same = len(lines) == len(given.lines)  # not where a single string had all lines
    return replace(given, lines=lines, numbers=given.numbers if same else range(1, len(lines) + 1))


def _number_remarks(document: Document, numbers: Sequence[int], first: int = 0) -> Document:
    """Return the document with the text's line numbers; `first` is the index of the document's first line."""
    if not document.remarks and not document.parts:
        return document
    remarks = (
        replace(each, line=numbers[at]) if each.line and (at := first + each.line - 1) < len(numbers) else each
        for each in document.remarks
    )
    parts = tuple(_number_remarks(part, numbers, first) for part in document.parts)
    return replace_values(document, remarks=tuple(remarks), parts=parts)


def _parse_whole(text: str, begun: Sequence[TextPart], parsers: Mapping[str, ToolParser], tool: str | None) -> Document:
    """Parse the text as one output, by each tool that may have printed it."""
    text, left_out = _limit_text(text, WHOLE_LIMIT, ENDS_LIMIT)
    text = drop_markdown_tables(text) if begun else text
    if tool is not None:
        return note_left_out(parsers[tool].parse(text), left_out)
    named = begun[0].tools if begun else ()
    order = sorted(parsers, key=lambda name: (name not in named, *_rank_tool(parsers[name].forms, text)))
    read: list[Document] = []
    for name in order:
        read.append(parsers[name].parse(text))
        if named and read[-1].kind not in NOTHING:
            break
    best = next((document for document in read if document.kind not in NOTHING), None)
    foreign = next((document for document in read if document.detail.get("reason")), None)
    if best is None or (foreign and not named):  # one parser knows that a similar output is of a foreign program
        return Document("", "unknown", detail=foreign.detail if foreign else {})
    best = note_left_out(best, left_out)
    return replace(best, command=begun[0].command, host=begun[0].host) if begun else best


def _explain_foreign(part: TextPart, parsers: Mapping[str, ToolParser]) -> Document:
    """Return a document of kind `unknown`, with the reason where the parser that knows such outputs has one."""
    detail = parsers[part.tools[0]].parse(part.text).detail
    return Document("", "unknown", detail={"reason": detail["reason"]} if detail.get("reason") else {})


def _limit_text(text: str, limit: int, ends: int) -> tuple[str, int]:
    """Return the beginning and the end of a text above the limit, and how many characters are between them."""
    if len(text) <= limit:
        return text, 0
    first = text[: ends // 2].splitlines(keepends=True)
    last = text[-ends // 2 :].splitlines(keepends=True)
    begin = sum(map(len, first[: min(ENDS_LINES, len(first) - 1)])) or ends // 2
    end = len(text) - (sum(map(len, last[1:][-ENDS_LINES:])) or ends // 2)
    return text[:begin] + text[end:], end - begin


def note_left_out(document: Document, count: int) -> Document:
    """Return the document with a remark that characters of the text were not read."""
    if not count or document.kind in NOTHING:
        return document
    return replace(document, remarks=(*document.remarks, CellRemark(0, "text", f"... {count} characters ...")))


def _rank_tool(forms: OutputForms, text: str) -> tuple[bool, ...]:
    """Return the key to sort tools by: with a hint in the text, then those whose formats others have."""
    return not forms.has_hint(text), bool(forms.follows), not forms.shared


def _parse_parts(
    parts: Sequence[tuple[TextPart, HostText]], parsers: Mapping[str, ToolParser], tool: str | None
) -> list[tuple[TextPart, Document]]:
    """Return the parts that hold an output, with their documents, and those of commands without one."""
    read: list[tuple[TextPart, Document]] = []
    equal: dict[tuple[str, str], Document] = {}  # many answers of a watch log are equal
    before = next((_prefer_original(part.tools, parsers) for part, _ in parts if part.tools), "")
    for part, source in parts:
        choice = _choose_tool(part, parsers, tool or before)
        if not choice or (tool is not None and choice != tool):
            continue
        own = cut_after_output(part)[:PART_LIMIT]
        if (choice, own) not in equal:
            limited = own if part.tools else _limit_text(own, WHOLE_LIMIT, ENDS_LIMIT)[0]
            equal[choice, own] = parsers[choice].parse(limited)
        document = equal[choice, own]
        if document.kind in NOTHING and part.command:
            kind = "unknown" if any(map(str.strip, part.lines[1:])) else "empty"
            read.append((part, Document(choice, kind, command=part.command, host=part.host)))
        if document.kind in NOTHING or not (part.tools or document.devices or document.topology):
            continue
        before = choice
        document = _number_remarks(document, source.numbers, part.first)
        samples = document.parts or (document,)
        read += [(part, replace_values(each, command=part.command, host=part.host)) for each in samples]
    return read


def _join_answers(
    read: Sequence[tuple[TextPart, Document]], parsers: Mapping[str, ToolParser]
) -> Iterator[tuple[TextPart, Document]]:
    """Yield the outputs; those that answer one question in several commands, such as an address and its routes, as one
    if their parser reads them as one."""
    for (tool, _, is_joined), group in groupby(read, lambda each: _name_group(each[1])):
        for members in _split_questions(group) if is_joined else (list(group),):
            yield from _join_members(members, parsers[tool]) if is_joined and len(members) > 1 else members


def _join_members(members: list[tuple[TextPart, Document]], parser: ToolParser) -> list[tuple[TextPart, Document]]:
    (part, first), one = members[0], parser.parse("\n".join(part.text for part, _ in members) + "\n")
    return [(part, replace(one, command=first.command, host=first.host))] if one.kind in _JOINED_KINDS else members


def _name_group(document: Document) -> tuple[str, str, bool]:
    return document.tool, document.host, document.kind in _JOINED_KINDS and bool(document.command)


def _split_questions(read: Iterable[tuple[TextPart, Document]]) -> Iterator[list[tuple[TextPart, Document]]]:
    """Yield the answers to one question: of one device to several commands, or of several devices to one; each once."""
    asked: list[tuple[str, str]] = []
    members: list[tuple[TextPart, Document]] = []
    for each in read:
        command = each[1].command
        question = (_read_selection(command), _SELECTION.sub("", command))
        if members and (question in asked or not {*question} & {*asked[-1]}):
            yield members
            asked, members = [], []
        asked.append(question)
        members.append(each)
    yield members


def _choose_tool(part: TextPart, parsers: Mapping[str, ToolParser], usual: str) -> str:
    """Return the tool of a part: of similar tools the one that the words hint at, else the usual one."""
    if len(part.tools) == 1:
        return part.tools[0]
    candidates = part.tools or (usual,)
    text = part.text
    hinted = [name for name in candidates if parsers[name].forms.has_hint(text)]
    if len(hinted) == 1:
        return hinted[0]
    return usual if usual in candidates else _prefer_original(candidates, parsers)


def _prefer_original(tools: Sequence[str], parsers: Mapping[str, ToolParser]) -> str:
    """Return the tool whose formats the others have."""
    return min(tools, key=lambda name: bool(parsers[name].forms.follows))


def _join_documents(
    read: Sequence[tuple[TextPart, Document]], answers: Sequence[tuple[TextPart, Document]]
) -> Document:
    """Return the session of the outputs; `answers` are also those of commands that printed none."""
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
        detail={"parts": [describe_part(document.command, document) for _, document in answers]},
        parts=documents,
    )


def find_last_listings(documents: Iterable[Document]) -> list[Document]:
    """Return the last complete listing of each host and tool, or the last one where none is complete.

    Commands that each list other devices of one machine (-i 0, -i 1) count together where none lists all.
    """
    last: dict[tuple[str, str], dict[str, Document]] = {}
    for document in documents:
        if document.devices or document.processes:
            listings = last.setdefault((document.host, document.tool), {})
            selected = _read_selection(document.command)
            earlier = listings.get(selected)
            if earlier is None or _is_complete(document) or not _is_complete(earlier):
                listings[selected] = document
    return [
        document for listings in last.values() for document in ([listings[""]] if "" in listings else listings.values())
    ]


def _read_selection(command: str) -> str:
    """Return the devices that a command selects, "" for all."""
    found = _SELECTION.search(command)
    return found[1] if found else ""


def _is_complete(document: Document) -> bool:
    """Return whether the output lists whole devices, not some values of each, as -L or -q -d TEMPERATURE does.

    The form decides, not the values: a card that fails has fewer of them.
    """
    if document.truncated or document.kind in _WHOLE_KINDS:
        return not document.truncated
    if document.kind in _NAMED_KINDS:
        return any(each.name for each in document.devices)
    return any(each.name and each.memory_total_mib for each in document.devices)


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
    entry["fields"] = blocks[0].get("fields", {})
    entry.update(document.detail)
    return entry
