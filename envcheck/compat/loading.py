"""The tables of versions, checked, as a Table.  A wrong key, component or pattern is named with its place."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from envcheck.compat import patterns
from envcheck.compat.components import NEXT, TableFile, components, own_files
from envcheck.compat.model import Confidence, Goal, Image, Renamed, Row, Rule, Standing, Table
from envcheck.core.errors import UsageError

STANDINGS = {"tested": Standing.TESTED, "unknown": Standing.UNKNOWN, "bad": Standing.BAD}
_ROW = {"version", "with", "verdict", "confidence", "source", "date", "partner", "release", "symptom", "remedy", "note"}
_RULE = {"pair", "relation", "holds", "confidence", "source", "date", "symptom", "remedy", "note"}


@functools.cache
def table() -> Table:
    """Ours, read once."""
    return load(own_files())


def load(files: Sequence[TableFile]) -> Table:
    """All tables of the files."""
    sources = {str(k): str(v) for file in files for k, v in file.said.get("sources", {}).items()}
    rows = tuple(row for file in files for row in _rows(file.name, file.said, sources))
    rules = tuple(rule for file in files for rule in _rules(file.name, file.said, sources))
    return Table(
        rows=rows,
        rules=rules,
        images=tuple(image for file in files for image in _images(file.said)),
        renamed=tuple(each for file in files for each in _renamed(file.said)),
        sources=sources,
        indexes={str(p): str(f) for file in files for f, p in _index(file.said).get("devices", {}).items()},
        index_pattern=next((_index(file.said)["pattern"] for file in files if "pattern" in _index(file.said)), ""),
        urls={package: url for file in files for package, url in _urls(file.name, file.said, sources)},
        pairs=_pairs(rows, rules),
        goals={(file.vendor, framework): goal for file in files for framework, goal in _goals(file)},
    )


def _goals(file: TableFile) -> Iterator[tuple[str, Goal]]:
    for framework, said in file.said.get("goals", {}).items():
        where = f"{file.name}: goal {framework}"
        _keys(where, said, {"driver", "wanted", "links", "beside"})
        links = tuple((_component(where, left), _component(where, right)) for left, right in said["links"])
        wanted, beside = (tuple(_component(where, name) for name in said.get(key, ())) for key in ("wanted", "beside"))
        yield str(framework), Goal(_component(where, said["driver"]), wanted, links, beside)


def _pairs(rows: Iterable[Row], rules: Iterable[Rule]) -> dict[tuple[str, str], tuple[Row, ...]]:
    """By (of, other), in the order of the files."""
    found: dict[tuple[str, str], tuple[Row, ...]] = {rule.pair: () for rule in rules}
    for row in rows:
        for other in row.others:
            key = (row.of, other)
            found[key] = (*found.get(key, ()), row)
    return found


def _rows(file: str, said: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[Row]:
    for group in said.get("groups", ()):
        of = _component(file, group.get("of"))
        for number, row in enumerate(group.get("rows", ()), 1):
            where = f"{file}: {of}, row {number}"
            _keys(where, row, _ROW)
            others = {_component(where, k): _patterns(where, v, str(k)) for k, v in row.get("with", {}).items()}
            if not others:
                raise UsageError(f"{where}: with nothing", NEXT)
            version = _patterns(where, row.get("version"), of)
            yield _row(where, row, sources, of, version, others, STANDINGS.get(row.get("verdict", "tested")))


def _rules(file: str, said: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[Rule]:
    for number, rule in enumerate(said.get("rules", ()), 1):
        where = f"{file}: rule {number}"
        _keys(where, rule, _RULE)
        left, right = (_component(where, name) for name in rule["pair"])
        held = _row(where, rule, sources, left, ("any",), {right: ("any",)}, STANDINGS.get(rule["holds"]))
        yield Rule((left, right), str(rule["relation"]), held)


def _row(
    where: str,
    said: Mapping[str, Any],
    sources: Mapping[str, str],
    of: str,
    version: tuple[str, ...],
    others: Mapping[str, tuple[str, ...]],
    standing: Standing | None,
) -> Row:
    if standing is None:
        raise UsageError(f"{where}: the verdict is none of {', '.join(STANDINGS)}", NEXT)
    named = _texts(said.get("source"))
    if not named or any(name not in sources for name in named) or not said.get("date"):
        raise UsageError(f"{where}: source or date is missing, or the source is none of sources.toml", NEXT)
    try:
        confidence = Confidence(said.get("confidence", "documented"))
    except ValueError:
        raise UsageError(f"{where}: confidence {said['confidence']!r} is none", NEXT) from None
    words = {key: str(said.get(key, "")) for key in ("date", "release", "symptom", "remedy", "note")}
    return Row(of, version, others, standing, confidence, named, partner=bool(said.get("partner", False)), **words)


def _images(said: Mapping[str, Any]) -> Iterator[Image]:
    for group in said.get("images", ()):
        for held in group["holds"]:
            holds = {k: str(v) for k, v in held.items() if k not in ("tag", "doubt")}
            references = tuple(f"{place}:{held['tag']}" for place in group["repositories"])
            yield Image(references, holds, _texts(group["source"]), str(group["date"]), str(held.get("doubt", "")))


def _renamed(said: Mapping[str, Any]) -> Iterator[Renamed]:
    for group in said.get("options", ()):
        for old, new in group["renamed"]:
            source, note = _texts(group["source"]), str(group.get("note", ""))
            yield Renamed(str(group["tool"]), str(group["since"]), old, new, source, str(group["date"]), note)


def _index(said: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = said.get("indexes", {})
    return found


def _urls(file: str, said: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in said.get("urls", ()):
        _keys(f"{file}: urls", each, {"package", "url", "source", "date"})
        if each["source"] not in sources or not each["date"]:
            raise UsageError(f"{file}: urls: source or date is missing, or the source is none of sources.toml", NEXT)
        yield _component(file, each["package"]), str(each["url"])


def _keys(where: str, said: Mapping[str, Any], known: set[str]) -> None:
    if strange := sorted(set(said) - known):
        raise UsageError(f"{where}: there is no key {strange[0]!r}", NEXT)


def _component(where: str, name: object) -> str:
    if not isinstance(name, str) or name not in components():
        raise UsageError(f"{where}: there is no component {name!r}", NEXT)
    return name


def _patterns(where: str, said: object, component: str) -> tuple[str, ...]:
    found = _texts(said)
    wrong = [text for text in found if not patterns.readable(component, text)]
    if wrong or not found:
        raise UsageError(f"{where}: {component} {wrong[0] if wrong else ''!r} is no version and no range", NEXT)
    return found


def _texts(said: object) -> tuple[str, ...]:
    listed = said if isinstance(said, list) else [] if said is None else [said]
    return tuple(str(text) for text in listed)
