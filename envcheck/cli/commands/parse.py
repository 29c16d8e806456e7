"""`envcheck parse`: convert the output of a vendor tool to one JSON document."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.core import language, suggestions
from envcheck.core.messages import _, fill, join
from envcheck.vendors import VENDORS

if TYPE_CHECKING:
    from envcheck.core.model import Document

# tool → parser module with `parse(text) -> Document`; only the requested one is imported
PARSERS = {vendor.tool: vendor.parser for vendor in VENDORS.values() if vendor.tool}
BYTES_LIMIT = 32 << 20  # bytes of input; the longest real output is about 1 MB


@click.command(short_help="Convert the output of a vendor tool to JSON.")
@click.argument("tool", metavar="TOOL")
@click.argument("file", default="-", metavar="[FILE|-]")
@click.option("--json", is_flag=True, expose_value=False, help="Print one JSON document on standard output.")
def parse(tool: str, file: str) -> int:
    """Convert the output of TOOL (npu-smi, ixsmi, nvidia-smi, xpu-smi) from FILE or standard input to JSON.

    The document holds the kind of output, versions, devices, processes, topology, or the error.  Prompts, colours and
    quote marks around the output are ignored.  For npu-smi, output of hccn_tool and lspci and the version files of
    driver and toolkit are read as well.  Exit code 1: the text contains no such output.

    \b
    npu-smi info | envcheck parse npu-smi
    envcheck parse npu-smi pasted.txt
    envcheck parse nvidia-smi query.xml
    """
    from envcheck.core.errors import CHECK_FAILED, SUCCESS, UsageError
    from envcheck.core.model import ToolError

    matched = suggestions.match_name(tool.replace("_", "-"), PARSERS)  # xpu_smi is the older name of xpu-smi
    if matched is None:
        next_step = suggestions.suggest(tool, PARSERS, _("Use one of {parsers}.", parsers=join(", ", PARSERS)))
        raise UsageError(_("unknown tool {tool!r}", tool=tool), next_step)
    text = _read_input(file)
    document: Document = importlib.import_module(PARSERS[matched]).parse(text)
    if document.kind != "unknown":
        _print_values(as_json(document) | {"exit_code": SUCCESS, "next": ""})
        return SUCCESS
    begins = _("the text begins with {line!r}", line=find_first_line(text)) if text.strip() else _("the text is empty")
    reason = fill(str(document.detail.get("reason") or "")) or begins
    message = _("no output of {tool} found; {reason}", tool=tool, reason=reason)
    next_step = _("Provide the complete output of {tool}, as a file or on standard input.", tool=tool)
    error = dataclasses.asdict(ToolError("unrecognized", None, message, "", next_step))
    _print_values(as_json(document) | {"error": error, "exit_code": CHECK_FAILED, "next": next_step})
    click.echo(language.translate(_("envcheck: {message}", message=message)), err=True)
    click.echo(f"  {language.translate(_('next: {next_step}', next_step=next_step))}", err=True)
    return CHECK_FAILED


def _print_values(values: dict[str, Any]) -> None:
    click.echo(json.dumps(values, indent=2, ensure_ascii=False).encode())  # UTF-8 in any locale


def _read_input(file: str) -> str:
    """Read bytes up to the limit; the rest is ignored."""
    from envcheck.core.errors import UsageError

    try:
        if file == "-":
            raw = sys.stdin.buffer.read(BYTES_LIMIT)
        else:
            with Path(file).open("rb") as opened:
                raw = opened.read(BYTES_LIMIT)
    except (OSError, ValueError) as err:
        why = (getattr(err, "strerror", None) or str(err)).lower()
        raise UsageError(
            _("cannot read {file}: {why}", file=file, why=why),
            _("specify a file that you can read, or - for standard input"),
        ) from err
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # Windows PowerShell's `>` writes UTF-16
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8", "replace")


def find_first_line(text: str) -> str:
    """Return the first line that is not blank, cut for quoting."""
    return next((line.strip()[:80] for line in text[:4096].splitlines() if line.strip()), "")


def as_json(document: Document) -> dict[str, Any]:
    """Return the document as plain lists and dictionaries; integral floats become integers."""
    plain: dict[str, Any] = _drop_zero_fractions(dataclasses.asdict(document))
    return plain


def _drop_zero_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_zero_fractions(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_drop_zero_fractions(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
