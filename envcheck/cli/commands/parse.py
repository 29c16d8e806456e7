"""`envcheck parse`: the text of a vendor's tool, wherever it comes from, as one JSON document."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.core import language
from envcheck.vendors import VENDORS

if TYPE_CHECKING:
    from envcheck.core.model import Document

# tool → the module that reads it: `parse(text) -> Document`; only the one that is asked for is imported
PARSERS = {vendor.tool: vendor.parser for vendor in VENDORS.values() if vendor.tool}
BYTES_LIMIT = 32 << 20  # of input; the longest real answer is about 1 MB


@click.command(short_help="Read a vendor tool's output; print JSON.")
@click.argument("tool", metavar="TOOL")
@click.argument("file", default="-", metavar="[FILE|-]")
@click.option("--json", is_flag=True, expose_value=False, help="As it is: one JSON document on standard output.")
def parse(tool: str, file: str) -> int:
    """Read the output of TOOL (npu-smi, ixsmi, nvidia-smi) from FILE, or from standard input.

    Prints one JSON document: what kind of output it is, versions, devices, processes, topology or the error, whatever
    stands around it (prompts, colours, quote marks).  Also reads what belongs to npu-smi: hccn_tool, lspci, the version
    files of driver and toolkit.  Exit code 1 if nothing in the text is such an output.

    \b
    npu-smi info | envcheck parse npu-smi
    envcheck parse npu-smi pasted.txt
    envcheck parse nvidia-smi query.xml
    """
    from envcheck.core.errors import FIT, UNFIT, UsageError
    from envcheck.core.model import ToolError

    if tool not in PARSERS:
        near = difflib.get_close_matches(tool.lower(), PARSERS, n=1)
        next_step = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(PARSERS)}"
        raise UsageError(f"there is no parser for {tool!r}", next_step)
    text = _text(file)
    document: Document = importlib.import_module(PARSERS[tool]).parse(text)
    if document.kind != "unknown":
        _print(as_json(document) | {"exit_code": FIT, "next": ""})
        return FIT
    begins = f"it begins with {first_line(text)!r}" if text.strip() else "it is empty"
    message = f"no output of {tool} in this text; {begins}"
    next_step = f"give the whole text that {tool} printed, as a file or on standard input"
    error = dataclasses.asdict(ToolError("unrecognized", None, message, "", next_step))
    _print(as_json(document) | {"error": error, "exit_code": UNFIT, "next": next_step})
    click.echo(language.say(f"envcheck: {message}"), err=True)
    click.echo(f"  {language.say(f'next: {next_step}')}", err=True)
    return UNFIT


def _print(values: dict[str, Any]) -> None:
    click.echo(json.dumps(values, indent=2, ensure_ascii=False).encode())  # UTF-8 in any locale


def _text(file: str) -> str:
    """The input, whatever its bytes; what is beyond the limit is left."""
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
            f"cannot read {file}: {why}", "give a file that you may read, or - for standard input"
        ) from err
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # Windows PowerShell's `>` writes UTF-16
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8", "replace")


def first_line(text: str) -> str:
    """The first line that is not blank, short enough to be quoted."""
    return next((line.strip()[:80] for line in text[:4096].splitlines() if line.strip()), "")


def as_json(document: Document) -> dict[str, Any]:
    """The document in plain lists and dictionaries; whole numbers without a decimal point."""
    plain: dict[str, Any] = _whole(dataclasses.asdict(document))
    return plain


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
