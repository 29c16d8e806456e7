"""The tables of versions, checked, as a Table.  A wrong component, pattern or source is named with its place."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from envcheck.compat import patterns
from envcheck.compat.components import components
from envcheck.compat.model import Goal, Image, Renamed, Row, Rule, Table
from envcheck.compat.table_file import NEXT, CompatFile, own_files
from envcheck.core.errors import UsageError


@functools.cache
def table() -> Table:
    """Ours, read once."""
    return load(own_files())


def load(files: Sequence[CompatFile]) -> Table:
    """All tables of the files."""
    sources = {name: text for file in files for name, text in file.sources.items()}
    rows = tuple(row for file in files for row in _rows(file, sources))
    rules = tuple(rule for file in files for rule in _rules(file, sources))
    return Table(
        rows=rows,
        rules=rules,
        images=tuple(image for file in files for image in _images(file)),
        renamed=tuple(each for file in files for each in _renamed(file)),
        sources=sources,
        indexes={package: folder for file in files for folder, package in file.indexes.devices.items()},
        index_pattern=next((file.indexes.pattern for file in files if file.indexes.pattern), ""),
        urls={package: url for file in files for package, url in _urls(file, sources)},
        pairs=_pairs(rows, rules),
        goals={(file.vendor, framework): goal for file in files for framework, goal in _goals(file)},
    )


def _goals(file: CompatFile) -> Iterator[tuple[str, Goal]]:
    for framework, goal in file.goals.items():
        _check_components(
            f"{file.name}: goals.{framework}", goal.driver, *goal.wanted, *goal.beside, *sum(goal.links, ())
        )
        yield framework, goal


def _pairs(rows: Iterable[Row], rules: Iterable[Rule]) -> dict[tuple[str, str], tuple[Row, ...]]:
    """By (of, other), in the order of the files."""
    found: dict[tuple[str, str], tuple[Row, ...]] = {rule.pair: () for rule in rules}
    for row in rows:
        for other in row.others:
            key = (row.of, other)
            found[key] = (*found.get(key, ()), row)
    return found


def _rows(file: CompatFile, sources: Mapping[str, str]) -> Iterator[Row]:
    for group in file.groups:
        _check_components(file.name, group.of)
        for number, row in enumerate(group.rows, 1):
            where = f"{file.name}: {group.of}, row {number}"
            _check_components(where, *row.others)
            if not row.others:
                raise UsageError(f"{where}: with nothing", NEXT)
            for component, versions in ((group.of, row.version), *row.others.items()):
                _check_patterns(where, component, versions)
            _check_source(where, row.source, row.date, sources)
            yield replace(row, of=group.of)


def _rules(file: CompatFile, sources: Mapping[str, str]) -> Iterator[Rule]:
    for number, rule in enumerate(file.rules, 1):
        where, (left, right) = f"{file.name}: rule {number}", rule.pair
        _check_components(where, left, right)
        _check_source(where, rule.source, rule.date, sources)
        row = Row(
            of=left,
            version=("any",),
            others={right: ("any",)},
            standing=rule.holds,
            confidence=rule.confidence,
            source=rule.source,
            date=rule.date,
            symptom=rule.symptom,
            remedy=rule.remedy,
            note=rule.note,
        )
        yield Rule(rule.pair, rule.relation, row)


def _images(file: CompatFile) -> Iterator[Image]:
    for group in file.images:
        for held in group.holds:
            holds = {name: text for name, text in held.items() if name not in ("tag", "doubt")}
            references = tuple(f"{place}:{held['tag']}" for place in group.repositories)
            yield Image(references, holds, group.source, group.date, held.get("doubt", ""))


def _renamed(file: CompatFile) -> Iterator[Renamed]:
    for group in file.options:
        for old, new in group.renamed:
            yield Renamed(group.tool, group.since, old, new, group.source, group.date, group.note)


def _urls(file: CompatFile, sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in file.urls:
        _check_source(f"{file.name}: urls", (each.source,), each.date, sources)
        _check_components(f"{file.name}: urls", each.package)
        yield each.package, each.url


def _check_source(where: str, named: Sequence[str], date: str, sources: Mapping[str, str]) -> None:
    if not named or any(name not in sources for name in named) or not date:
        raise UsageError(f"{where}: source or date is missing, or the source is none of sources.toml", NEXT)


def _check_components(where: str, *names: str) -> None:
    if strange := [name for name in names if name not in components()]:
        raise UsageError(f"{where}: there is no component {strange[0]!r}", NEXT)


def _check_patterns(where: str, component: str, versions: Sequence[str]) -> None:
    wrong = [text for text in versions if not patterns.readable(component, text)]
    if wrong or not versions:
        raise UsageError(f"{where}: {component} {wrong[0] if wrong else ''!r} is no version and no range", NEXT)
