"""The catalogue's TOML files as entries, checked: an entry that could not work is named, not skipped."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import Parsed, load_record, own_table
from envcheck.explain.model import Entry, EntryKind
from envcheck.vendors import find_data_files

FOLDER = Path(__file__).parent / "entries"
# A pattern that begins with @ is a number that stands as a code: `error code is 507033`, not `step 507033`.
_AS_CODE = r"(?:code|error|err|ret|result|status|failed)\b[^\d\n]{0,24}?(?<![\d.])(?:"
# What has no end, once escapes and sets of characters are out of the way.
_SKIP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_ENDLESS = re.compile(r"[*+]|\{\d*,\}|\{\d{4,}|\{\d*,\d{4,}")


def pattern(text: str) -> re.Pattern[str]:
    """Compiled, and sure to end soon on any line: nothing in it repeats without a bound, which is a ValueError."""
    if text.startswith("@"):
        text = _AS_CODE + text[1:] + r")(?![\d.]\d)(?!\d)"
    if _ENDLESS.search(_SKIP.sub("", text)):
        raise ValueError(f"the pattern {text!r} repeats without a bound")
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as err:
        raise ValueError(f"the pattern {text!r} cannot be read: {err}") from None


LinePattern = Annotated[re.Pattern[str], Parsed(pattern)]


@dataclass(frozen=True)
class _EntryTable:
    """An entry as a file has it."""

    name: str
    says: str
    why: str
    do: str
    near: tuple[str, ...]
    kind: EntryKind = "cause"
    match: tuple[LinePattern, ...] = ()
    needs: LinePattern | None = None
    unless: LinePattern | None = None
    commands: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    applies: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All of them, by the names of their areas; within an area as they stand in its file."""
    areas = sorted([*_common_areas(), *_vendor_areas()], key=lambda area: area[0])
    found = [entry(raw, area) for area, listed in areas for raw in listed]
    names = [entry.name for entry in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"the catalogue of explanations has {', '.join(twice)} twice")
    return tuple(found)


def _common_areas() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The areas that concern no vendor alone, a file each."""
    for path in FOLDER.glob("*.toml"):
        yield path.stem, own_table(path).get("entry", [])


def _vendor_areas() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The areas of each vendor's explain.toml, an array of tables each."""
    for _, path in find_data_files("explain.toml"):
        yield from own_table(path).items()


def entry(raw: Mapping[str, Any], area: str) -> Entry:
    """One table; UsageError says what is wrong with it."""
    name = f"{area}.{raw.get('name', '?')}"
    said = load_record(_EntryTable, raw, "explain", name)
    if not said.near or any(word != word.lower() for word in said.near):
        raise UsageError(f"{name}: near needs words in lower case")
    match = said.match or tuple(pattern(_as_word(word)) for word in said.near)
    return Entry(**{**vars(said), "name": name, "match": match}, area=area)


def _as_word(text: str) -> str:
    ahead = r"(?<![a-z0-9_])" if text[0].isalnum() else ""
    return ahead + re.escape(text) + (r"(?![a-z0-9_])" if text[-1].isalnum() else "")


def by_code(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Code, upper case → the first entry that claims it."""
    found: dict[str, Entry] = {}
    for one in entries:
        for code in one.codes:
            found.setdefault(code.upper(), one)
    return found
