"""Load and validate the catalogue's TOML files: an invalid entry is an error, it is not skipped."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.core.toml_file import ParsedText, list_files, load_own_table, load_record
from envcheck.explain import codes, prefilter
from envcheck.explain.diagnosis import CatalogueEntry, EntryKind, WarningMeaning
from envcheck.explain.exceptions import api_changes, known_bugs, raised_place
from envcheck.vendors import find_data_files

FOLDER = Path(__file__).parent / "entries"
FORMS = Path(__file__).parent / "exceptions" / "forms.toml"
COMPONENTS = Path(__file__).parent / "components" / "messages.toml"
NOT_OF_LINES = {FORMS.parent.name, COMPONENTS.parent.name}
# A pattern that begins with @ is a number used as a code: `error code is 507033`, not `step 507033` or `300000ms`.
_AS_CODE = r"(?:code|error|err|ret|result|status|failed)\b[^\d\n]{0,24}?(?<![\d.])(?:"
# Unbounded repetition, after escapes and character sets are removed.
_SKIP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
# The keys of a table of codes: `<<pod_state>>` in a pattern, and in `near`.
_KEYS = re.compile(r"<<(\w{1,40})>>")
_ENDLESS = re.compile(r"[*+]|\{\d*,\}|\{\d{4,}|\{\d*,\d{4,}")


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; ValueError if it repeats without a bound, so that matching time is limited.

    `<<TABLE>>` in it is any key of that table in a codes.toml, `<<model_type>>` any known type of a model,
    `<<module_package>>` a module whose package in pip has another name, and others are in `patterns` of modules.toml.
    """
    text = _KEYS.sub(lambda found: f"(?:{'|'.join(_list_alternatives(found[1]))})", text)
    if text.startswith("@"):
        text = _AS_CODE + text[1:] + r")(?![\d.]\d)(?!\d| ?(?:m?s|[kmg]i?b|bytes|(?:milli)?seconds)\b)"
    if _ENDLESS.search(_SKIP.sub("", text)):
        raise ValueError(f"the pattern {text!r} repeats without a bound")
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as err:
        raise ValueError(f"the pattern {text!r} cannot be read: {err}") from None


def _list_alternatives(name: str) -> list[str]:
    """The patterns for which a name in double angle brackets stands."""
    if name == "model_type":
        return [re.escape(model) for model in api_changes.list_model_types()]
    if name == "module_package":
        return raised_place.list_renamed_modules()
    return raised_place.list_shared_patterns(name) or codes.list_key_patterns(name)


LinePattern = Annotated[re.Pattern[str], ParsedText(compile_pattern)]


@dataclass(frozen=True)
class _EntryTable:
    """An entry as written in the TOML file."""

    name: str
    says: str
    why: str
    do: str
    near: tuple[str, ...]
    kind: EntryKind = "cause"
    match: tuple[LinePattern, ...] = ()
    needs: LinePattern | None = None
    lacks: LinePattern | None = None
    unless: LinePattern | None = None
    around: tuple[LinePattern, ...] = ()
    installed: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    applies: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    peer: Literal["", "waits", "gone"] = ""
    infrastructure: bool = False
    warned: WarningMeaning = ""
    in_info: bool = False


@functools.cache
def load_entries() -> tuple[CatalogueEntry, ...]:
    """Return all entries, ordered by area name, within an area as in its file."""
    areas = sorted([*_read_common_areas(), *_read_vendor_areas()], key=lambda area: area[0])
    lines = (parse_entry(raw, area) for area, listed in areas for raw in listed)
    found = [*lines, load_bug_text(), *load_forms(), *load_component_messages()]
    found.sort(key=lambda entry: entry.area)
    names = [entry.name for entry in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(_("duplicate entries in the catalogue of explanations: {twice}", twice=join(", ", twice)))
    return tuple(found)


@functools.cache
def load_forms() -> tuple[CatalogueEntry, ...]:
    """Return the entries of exceptions by their form, the most telling first: they match exceptions, not lines."""
    table = load_own_table(FORMS)
    shared = {f"<<{name}>>": patterns for name, patterns in table["patterns"].items()}
    return tuple(parse_entry(_insert_patterns(raw, shared), FORMS.parent.name) for raw in table["entry"])


@functools.cache
def load_bug_text() -> CatalogueEntry:
    """Return the entry with the text for every known bug of a release; it matches no line."""
    said = load_own_table(known_bugs.FILE)["text"]
    return CatalogueEntry(
        name=f"{FORMS.parent.name}.known_bug",
        area=FORMS.parent.name,
        kind="cause",
        says=said["says"],
        why=said["why"],
        do=said["do"],
        near=(),
        match=(),
        commands=tuple(said["commands"]),
    )


def _insert_patterns(raw: Mapping[str, Any], shared: Mapping[str, list[str]]) -> Mapping[str, Any]:
    return {**raw, "match": [pattern for one in raw["match"] for pattern in shared.get(one, [one])]}


@functools.cache
def load_component_messages() -> tuple[CatalogueEntry, ...]:
    """Return the entries of messages by the component that wrote them: they quote a line that no other entry knows."""
    return tuple(parse_entry(raw, COMPONENTS.parent.name) for raw in load_own_table(COMPONENTS)["entry"])


def load_line_entries() -> tuple[CatalogueEntry, ...]:
    """Return the entries that match lines."""
    return tuple(entry for entry in load_entries() if entry.area not in NOT_OF_LINES)


def _read_common_areas() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The areas that do not belong to a vendor, one file each."""
    for path in list_files(FOLDER):
        yield path.stem, load_own_table(path).get("entry", [])


def _read_vendor_areas() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The areas in each vendor's explain.toml, an array of tables each."""
    for _unused, path in find_data_files("explain.toml"):
        yield from load_own_table(path).items()


def parse_entry(raw: Mapping[str, Any], area: str) -> CatalogueEntry:
    """Return the entry in one table; UsageError names the fault."""
    name = f"{area}.{raw.get('name', '?')}"
    parts = [part for text in raw.get("match", ()) for part in _split_keys(text)]
    said = load_record(_EntryTable, {**raw, "match": parts} if parts else raw, "explain", name)
    said = replace(said, near=tuple(word for near in said.near for word in _list_near(near)))
    if not said.near or any(word != word.lower() for word in said.near):
        raise UsageError(_("{name}: the words of `near` must be lower case", name=name))
    match = said.match or tuple(compile_pattern(_match_whole_word(word)) for word in said.near)
    return CatalogueEntry(**{**vars(said), "name": name, "match": match}, area=area)


def _split_keys(text: str) -> list[str]:
    """The pattern once for each `MOST` keys of a table that it names: with more, no words stand for it."""
    for found in _KEYS.finditer(text):
        keys = _list_alternatives(found[1]) if found[1] in codes.load_code_tables() else []
        if len(keys) > prefilter.MOST:
            groups = (keys[at : at + prefilter.MOST] for at in range(0, len(keys), prefilter.MOST))
            return [text.replace(found[0], f"(?:{'|'.join(group)})") for group in groups]
    return [text]


def _list_near(word: str) -> list[str]:
    """The word, or of each key of the table that it names the longest part without stars, in lower case."""
    found = _KEYS.fullmatch(word)
    return [max(key.lower().split("*"), key=len) for key in codes.load_code_tables()[found[1]]] if found else [word]


def _match_whole_word(text: str) -> str:
    ahead = r"(?<![a-z0-9_])" if text[0].isalnum() else ""
    return ahead + re.escape(text) + (r"(?![a-z0-9_])" if text[-1].isalnum() else "")


def index_by_code(entries: Iterable[CatalogueEntry]) -> dict[str, CatalogueEntry]:
    """Return code (upper case) → first entry that lists it."""
    found: dict[str, CatalogueEntry] = {}
    for one in entries:
        for code in one.codes:
            found.setdefault(code.upper(), one)
    return found
