"""Which parser reads which answer.  A parser that breaks is an answer too: a document of kind "unknown"."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable

from envcheck.core.model import Answer, Document, Outcome
from envcheck.core.vendor import Vendor
from probes import pairs, pci

UNKNOWN = "unknown"
REMEMBERED = 16 << 10  # characters; longer answers, of which each host has its own, are not kept


def document(vendor: Vendor, answer: Answer) -> Document:
    """What the answer says.  Errors come on either stream, an absent or hung tool says nothing that could be read."""
    if answer.outcome in (Outcome.ABSENT, Outcome.HUNG, Outcome.EMPTY):
        return Document(vendor.tool, UNKNOWN)
    text = answer.out if answer.ok and answer.out.strip() else answer.text
    parser = vendor.file_parsers.get(answer.key, vendor.parser)
    return (_parsed_once if len(text) <= REMEMBERED else _parsed)(vendor.tool, parser, text)


def load(vendor: Vendor) -> None:
    """Import the vendor's parser, while its tool is at work anyway; one that cannot be imported reads nothing."""
    with contextlib.suppress(Exception):
        importlib.import_module(vendor.parser)


def follow_up(vendor: Vendor, answer: Answer) -> Document:
    """As `document`, with a quick way through the plain ones, of which a host of 16 cards has a hundred."""
    short = answer.ok and not answer.err and len(answer.out) <= pairs.LIMIT
    plain = _plain(vendor.tool, answer.out) if short else None
    return plain or document(vendor, answer)


@functools.lru_cache(maxsize=2048)  # most ports are up, and most cards count no errors
def _plain(tool: str, text: str) -> Document | None:
    found = pairs.read(text)
    return Document(tool, "fields", detail={"fields": found}) if found else None


def bus_ids(vendor: Vendor, lspci: Answer) -> tuple[str, ...]:
    return (_listed_once if len(lspci.out) <= REMEMBERED else pci.accelerators)(lspci.out, vendor.pci_classes)


_listed_once = functools.lru_cache(maxsize=64)(pci.accelerators)


def _parsed(tool: str, parser: str, text: str) -> Document:
    try:
        return _parser(parser)(text)
    except Exception:  # the last line of defence: parsers promise not to raise, the doctor goes on if one does
        return Document(tool, UNKNOWN)


@functools.cache
def _parser(module: str) -> Callable[[str], Document]:
    parse: Callable[[str], Document] = importlib.import_module(module).parse
    return parse


# The hosts of a fleet give many answers word for word alike: version files, maps, ports that are up.
_parsed_once = functools.lru_cache(maxsize=2048)(_parsed)
