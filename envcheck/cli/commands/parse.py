"""`envcheck parse`: read pasted output of vendor tools; a table on a terminal, else one JSON document."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import functools
import gc
import importlib
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from envcheck.cli.option_groups import GroupedOption
from envcheck.core import language, suggestions
from envcheck.core.messages import NOTHING, Message, _, fill, join, ngettext
from envcheck.vendors import VENDORS

if TYPE_CHECKING:
    from envcheck.core.inputs.live_stream import LiveStream
    from envcheck.core.model import Document
    from probes.paste.paste_parser import ToolParser
    from probes.paste.text_parts import PartSplitter

# tool → parser module with `parse(text) -> Document`
PARSERS = {vendor.tool: vendor.parser for vendor in VENDORS.values() if vendor.tool}
WHOLE_BYTES = 2 << 20  # bytes read as a whole; of longer input, only the outputs are kept
BYTES_LIMIT = 4 << 30  # bytes of input that are read
DEVICE_BYTES = 8 << 20  # bytes that are read of a device, which may never end
INDENTED_LIMIT = 1 << 18  # characters of a document that has a line for each value; a longer one has one line
_SCALARS = frozenset((type(None), bool, int, str))  # types of values that are plain
_SCALAR_NAMES = {"None", "bool", "int", "str"}
GARBAGE_LIMIT = 200_000  # new objects before a search for garbage: a document has a million, and none is garbage
DETECTED_BYTES = 1 << 20  # bytes that tell the encoding


@click.command(short_help="Read the output of vendor tools.")
@click.argument("words", metavar="[TOOL] [FILE|-]", nargs=-1)
@click.option(
    "--fields",
    cls=GroupedOption,
    metavar="NAMES",
    help="Names of the columns of a CSV without a header.",
)
@click.option("--strict", is_flag=True, help="Exit with code 3 on warnings.")
@click.option("--json", "as_document", is_flag=True, help="Print one JSON document on standard output.")
def parse(words: tuple[str, ...], fields: str | None, strict: bool, as_document: bool) -> int:
    """Read the output of npu-smi, ixsmi, nvidia-smi and xpu-smi from FILE or standard input.

    A terminal gets tables, a pipe or a file one JSON document: the kind of output, versions, devices, processes,
    topology, or the error.  Without TOOL, the text tells whose output it is; several outputs, tools and hosts in one
    text become a session.  Prompts, colours, quote marks and host names around the output are ignored.  For npu-smi,
    output of hccn_tool and lspci and the version files of driver and toolkit are read as well.  An incomplete text and
    cells that cannot be read are warnings.  Exit code 1: the text contains no such output.

    \b
    npu-smi info | envcheck parse
    envcheck parse pasted.txt
    envcheck parse nvidia-smi query.xml --json
    envcheck parse ixsmi rows.csv --fields index,uuid,memory.used
    """
    from envcheck.core.errors import CHECK_FAILED, SUCCESS, UNDETERMINED
    from probes.paste.paste_parser import make_splitter, note_left_out, parse_paste

    gc.set_threshold(GARBAGE_LIMIT)
    tool, file = _choose_tool_and_file(words)
    parsers = load_parsers()
    splitter = make_splitter(parsers)
    text, left_out = _read_input(file, splitter)
    named = _add_field_names(text, fields, tool, parsers) if fields else text
    document = note_left_out(parse_paste(named, parsers, tool, splitter), left_out)
    as_document = as_document or not sys.stdout.isatty()
    if document.kind == "unknown":
        _report_nothing(document, text, tool, parsers, as_document)
        return CHECK_FAILED
    flaw = _describe_flaw(document)
    code = UNDETERMINED if strict and flaw else SUCCESS
    if as_document:
        _print_values(as_json(document) | {"exit_code": code, "next": ""})
    else:
        from envcheck.report.parsed_text import render_document

        for line in render_document(document):
            click.echo(line)
    if flaw:
        click.echo(language.translate(_("envcheck: {message}", message=flaw)), err=True)
    return code


def load_parsers() -> dict[str, ToolParser]:
    """Return the parser of each tool by name."""
    from probes.paste.paste_parser import load_parser

    return {tool: load_parser(tool, importlib.import_module(module)) for tool, module in PARSERS.items()}


def _choose_tool_and_file(words: tuple[str, ...]) -> tuple[str | None, str]:
    """Return the tool, or None, and the file; a single word is the name of a tool, or else of a file."""
    from envcheck.core.errors import UsageError
    from envcheck.core.local_files import may_exist

    if len(words) > 2:
        raise UsageError(_("too many arguments: {words}", words=join(" ", words[2:])), _("specify one file"))
    first = words[0].replace("_", "-") if words else ""  # xpu_smi is the older name of xpu-smi
    tool = suggestions.match_name(first, PARSERS) if words else None
    if tool is not None:
        return tool, words[1] if len(words) > 1 else "-"
    if len(words) < 2 and (not words or words[0] == "-" or may_exist(words[0])):
        return None, words[0] if words else "-"
    next_step = suggestions.suggest(words[0], PARSERS, _("Use one of {parsers}.", parsers=join(", ", PARSERS)))
    message = (
        _("unknown tool {tool!r}", tool=words[0])
        if len(words) > 1
        else _("{word!r} is neither a tool nor a file", word=words[0])
    )
    raise UsageError(message, next_step)


def _add_field_names(text: str, fields: str, tool: str | None, parsers: dict[str, ToolParser]) -> str:
    """Return the text below the command that would have printed it."""
    hinted = [name for name, parser in parsers.items() if parser.forms.has_hint(text)]
    program = tool or next(iter(hinted), "nvidia-smi")
    return f"$ {program} --query-gpu={''.join(fields.split())} --format=csv,noheader\n{text}"


def _describe_flaw(document: Document) -> Message:
    """Return what was not read, or nothing."""
    unread = sum(remark.line > 0 or remark.field != "text" for remark in document.remarks) + sum(
        len(part.detail.get("unread") or ()) for part in (document, *document.parts)
    )
    incomplete = _("the text is incomplete") if document.truncated else NOTHING
    cells = ngettext("{count} cell or row cannot be read", "{count} cells or rows cannot be read", unread)
    return join("; ", [text for text in (incomplete, cells if unread else NOTHING) if text])


def _report_nothing(
    document: Document, text: str, tool: str | None, parsers: dict[str, ToolParser], as_document: bool
) -> None:
    """Report that the text has no output of the tool; name the right tool if it has another one's."""
    from envcheck.core.errors import CHECK_FAILED
    from envcheck.core.model import ToolError
    from probes.paste.paste_parser import NOTHING as KINDS
    from probes.paste.paste_parser import parse_paste

    names = tool or join(", ", PARSERS)
    begins = _("the text begins with {line!r}", line=find_first_line(text)) if text.strip() else _("the text is empty")
    reason: Message = fill(str(document.detail.get("reason") or "")) or begins
    next_step = _("Provide the complete output of {tool}, as a file or on standard input.", tool=names)
    other = parse_paste(text, parsers) if tool else document
    found = sorted({part.tool for part in other.parts or (other,) if part.kind not in KINDS})
    if found:
        reason = _("this looks like the output of {tools}", tools=join(", ", found))
        next_step = _("Run envcheck parse {tool}, or leave the tool out.", tool=found[0])
    message = _("no output of {tool} found; {reason}", tool=names, reason=reason)
    if as_document:
        error = dataclasses.asdict(ToolError("unrecognized", None, message, "", next_step))
        _print_values(as_json(document) | {"error": error, "exit_code": CHECK_FAILED, "next": next_step})
    click.echo(language.translate(_("envcheck: {message}", message=message)), err=True)
    click.echo(f"  {language.translate(_('next: {next_step}', next_step=next_step))}", err=True)


def _print_values(values: dict[str, Any]) -> None:
    """Print one JSON document; the lines of a long one, which no one reads, take ten times as long as its values."""
    text = json.dumps(values, ensure_ascii=False)
    if len(text) < INDENTED_LIMIT:
        text = json.dumps(values, ensure_ascii=False, indent=2)
    click.echo(text.encode())  # UTF-8 in any locale


def _read_input(file: str, splitter: PartSplitter) -> tuple[str, int]:
    """Return the text, of a long one only the outputs, and how many characters were left out."""
    from envcheck.core.errors import UsageError
    from envcheck.core.inputs.live_stream import open_file
    from probes.paste.long_text import select_outputs

    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else open_file(Path(file)) as opened:
            begin = opened.read(WHOLE_BYTES)
            _refuse_binary(file, begin)
            if len(begin) < WHOLE_BYTES:
                return _decode_text(begin), 0
            return select_outputs(_decode_blocks(begin, opened), splitter)
    except (OSError, ValueError) as err:
        why = (getattr(err, "strerror", None) or str(err)).lower()
        raise UsageError(
            _("cannot read {file}: {why}", file=file, why=why),
            _("specify a file that you can read, or - for standard input"),
        ) from err


def _refuse_binary(file: str, begin: bytes) -> None:
    from envcheck.core.errors import UsageError
    from probes.encoding import describe_binary

    if not _find_wide_encoding(begin) and (kind := describe_binary(begin)):
        raise UsageError(
            _("{file} is not text: {kind}", file=file, kind=kind), _("specify a file with the output of a tool")
        )


def _find_wide_encoding(raw: bytes) -> str | None:
    """Return the encoding of text in UTF-16, as of Windows PowerShell, with a mark or without; None for other text."""
    from probes.encoding import detect_wide

    return "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else detect_wide(raw)


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode(_detect_encoding(raw))
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _decode_blocks(begin: bytes, rest: IO[bytes] | LiveStream) -> Iterator[str]:
    """Yield the text in blocks, up to the limit of its size."""
    encoding = _detect_encoding(begin)
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    block, size = begin, 0
    limit = DEVICE_BYTES if _is_device(rest) else BYTES_LIMIT
    while block and size < limit:
        yield decoder.decode(block)
        size += len(block)
        block = rest.read(WHOLE_BYTES)


def _is_device(opened: IO[bytes] | LiveStream) -> bool:
    """Return whether the file is a device, such as /dev/zero, which never ends."""
    return stat.S_ISCHR(os.fstat(opened.fileno()).st_mode)


def _detect_encoding(raw: bytes) -> str:
    """Return UTF-16, UTF-8, or GBK where the text is no UTF-8 but is GBK."""
    if wide := _find_wide_encoding(raw):
        return wide
    sample = raw[:DETECTED_BYTES]
    for encoding in ("utf-8", "gb18030"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(sample, final=len(sample) == len(raw))
        except UnicodeDecodeError:
            continue
        return encoding
    return "utf-8"


def find_first_line(text: str) -> str:
    """Return the first line that is not blank, cut for quoting."""
    return next((line.strip()[:80] for line in text[:4096].splitlines() if line.strip()), "")


def as_json(document: Document) -> dict[str, Any]:
    """Return the document as plain lists and dictionaries; integral floats become integers."""
    plain: dict[str, Any] = _make_plain(document, {})
    return plain


def _make_plain(value: Any, done: dict[int, Any]) -> Any:
    """Return the value like `dataclasses.asdict`, but without copies of texts: a day's watch log has a million.

    `done` has the lists of the tuples that are made already, by identity: a session and its parts have the same rows.
    """
    kind: Any = type(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is tuple or kind is list:
        known = done.get(id(value))
        if known is None:
            known = [item if type(item) in _SCALARS else _make_plain(item, done) for item in value]
            if kind is tuple:
                done[id(value)] = known
        return known
    if _is_dataclass(kind):
        names, converted = _list_fields(kind)
        value = vars(value).copy() if len(vars(value)) == len(names) else {name: getattr(value, name) for name in names}
        for name in converted:
            if type(value[name]) not in _SCALARS:
                value[name] = _make_plain(value[name], done)
        return value
    if isinstance(value, Mapping):
        return {key: item if type(item) in _SCALARS else _make_plain(item, done) for key, item in value.items()}
    return value


_is_dataclass = functools.cache(dataclasses.is_dataclass)


@functools.cache
def _list_fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields of a dataclass, and of those whose types are no scalars."""
    fields = dataclasses.fields(kind)
    converted = (field.name for field in fields if not _SCALAR_NAMES.issuperset(str(field.type).split(" | ")))
    return tuple(field.name for field in fields), tuple(converted)
