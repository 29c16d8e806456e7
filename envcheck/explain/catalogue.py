"""The catalogue's TOML files as entries, checked: an entry that could not work is named, not skipped."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.explain.model import KINDS, Entry
from envcheck.vendors import find_data_files

FOLDER = Path(__file__).parent / "entries"
LIMIT = 1 << 20  # bytes of one file
_TEXTS = ("name", "says", "why", "do")
_LISTS = ("near", "match", "commands", "codes", "applies", "source", "follows")
_KNOWN = {*_TEXTS, *_LISTS, "kind", "needs", "unless"}
# A pattern that begins with @ is a number that stands as a code: `error code is 507033`, not `step 507033`.
_AS_CODE = r"(?:code|error|err|ret|result|status|failed)\b[^\d\n]{0,24}?(?<![\d.])(?:"
# What has no end, once escapes and sets of characters are out of the way.
_SKIP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_ENDLESS = re.compile(r"[*+]|\{\d*,\}|\{\d{4,}|\{\d*,\d{4,}")


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
        yield path.stem, _read(path).get("entry", [])


def _vendor_areas() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The areas of each vendor's explain.toml, an array of tables each."""
    for _, path in find_data_files("explain.toml"):
        yield from _read(path).items()


def _read(path: Path) -> dict[str, Any]:
    return toml_file.table(toml_file.text(path, LIMIT, "catalogue"), path.name, "reinstall envcheck")


def entry(raw: dict[str, Any], area: str) -> Entry:
    """One table; UsageError says what is wrong with it."""
    name = str(raw.get("name", "?"))
    if odd := sorted(raw.keys() - _KNOWN):
        raise UsageError(f"{area}: {name}: no field {odd[0]!r} is known")
    if bare := [key for key in _TEXTS if not isinstance(raw.get(key), str) or not raw[key]]:
        raise UsageError(f"{area}: {name}: {bare[0]} is missing")
    lists = {key: _strings(raw.get(key, ()), f"{area}: {name}: {key}") for key in _LISTS}
    kind = raw.get("kind", "cause")
    if kind not in KINDS:
        raise UsageError(f"{area}: {name}: kind {kind!r} is none of {', '.join(KINDS)}")
    if not lists["near"] or any(word != word.lower() for word in lists["near"]):
        raise UsageError(f"{area}: {name}: near wants words in lower case")
    return Entry(
        name=f"{area}.{name}",
        area=area,
        kind=kind,
        says=raw["says"],
        why=raw["why"],
        do=raw["do"],
        near=lists["near"],
        match=tuple(pattern(p, f"{area}.{name}") for p in lists["match"] or map(_as_word, lists["near"])),
        needs=pattern(raw["needs"], name) if "needs" in raw else None,
        unless=pattern(raw["unless"], name) if "unless" in raw else None,
        commands=lists["commands"],
        codes=lists["codes"],
        applies=lists["applies"],
        source=lists["source"],
        follows=lists["follows"],
    )


def pattern(text: str, name: str) -> re.Pattern[str]:
    """Compiled, and sure to end soon on any line: nothing in it repeats without a bound."""
    if text.startswith("@"):
        text = _AS_CODE + text[1:] + r")(?![\d.]\d)(?!\d)"
    if _ENDLESS.search(_SKIP.sub("", text)):
        raise UsageError(f"{name}: the pattern {text!r} repeats without a bound")
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as err:
        raise UsageError(f"{name}: the pattern {text!r} cannot be read: {err}") from None


def _as_word(text: str) -> str:
    ahead = r"(?<![a-z0-9_])" if text[0].isalnum() else ""
    return ahead + re.escape(text) + (r"(?![a-z0-9_])" if text[-1].isalnum() else "")


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item for item in value):
        raise UsageError(f"{where}: a list of texts is wanted")
    return tuple(value)


def by_code(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Code, upper case → the first entry that claims it."""
    found: dict[str, Entry] = {}
    for one in entries:
        for code in one.codes:
            found.setdefault(code.upper(), one)
    return found
