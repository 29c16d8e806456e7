"""Chooses the parser of an answer. A parser that raises gives a document of kind "unknown"."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable

from envcheck.core.model import Answer, Document, Outcome
from envcheck.core.vendor import Vendor
from probes import key_value_lines, pci

UNKNOWN = "unknown"
REMEMBERED = 16 << 10  # characters; longer answers differ between hosts and are not cached


def parse_answer(vendor: Vendor, answer: Answer) -> Document:
    """Return the parsed answer. Errors are on either stream; absent and hung tools have nothing to parse."""
    if answer.outcome in (Outcome.ABSENT, Outcome.HUNG, Outcome.EMPTY):
        return Document(vendor.tool, UNKNOWN)
    text = answer.out if answer.ok and answer.out.strip() else answer.text
    parser = vendor.file_parsers.get(answer.key, vendor.parser)
    return (_parsed_once if len(text) <= REMEMBERED else _parse_text)(vendor.tool, parser, text)


def load_parser(vendor: Vendor) -> None:
    """Import the vendor's parser while its tool is running; import errors are ignored here."""
    with contextlib.suppress(Exception):
        importlib.import_module(vendor.parser)


def parse_follow_up(vendor: Vendor, answer: Answer) -> Document:
    """Return the parsed answer like `parse_answer`, with a fast path for key-value output: 16 cards have a hundred of
    them."""
    short = answer.ok and not answer.err and len(answer.out) <= key_value_lines.LIMIT
    plain = _parse_plain(vendor.tool, answer.out) if short else None
    return plain or parse_answer(vendor, answer)


@functools.lru_cache(maxsize=2048)  # most answers are equal: ports up, no errors
def _parse_plain(tool: str, text: str) -> Document | None:
    found = key_value_lines.parse_pairs(text)
    return Document(tool, "fields", detail={"fields": found}) if found else None


def parse_bus_ids(vendor: Vendor, lspci: Answer) -> tuple[str, ...]:
    """Return the bus ids of the vendor's accelerators in the output of lspci."""
    return (_listed_once if len(lspci.out) <= REMEMBERED else pci.find_accelerators)(lspci.out, vendor.pci_classes)


_listed_once = functools.lru_cache(maxsize=64)(pci.find_accelerators)


def _parse_text(tool: str, parser: str, text: str) -> Document:
    try:
        return _import_parser(parser)(text)
    except Exception:  # parsers must not raise; if one does, the doctor continues
        return Document(tool, UNKNOWN)


@functools.cache
def _import_parser(module: str) -> Callable[[str], Document]:
    parse: Callable[[str], Document] = importlib.import_module(module).parse
    return parse


# Many answers are identical on all hosts of a fleet: version files, maps, ports that are up.
_parsed_once = functools.lru_cache(maxsize=2048)(_parse_text)
