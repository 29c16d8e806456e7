"""Loads and validates the version tables. An unknown component, pattern or source is reported with its position."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from envcheck.compat import version_patterns
from envcheck.compat.components import load_components
from envcheck.compat.table_file import CompatFile, own_files
from envcheck.compat.version_records import (
    CompatibilityTable,
    ImageVersions,
    RenamedOption,
    SolverGoal,
    VersionRow,
    VersionRule,
)
from envcheck.core.errors import UsageError
from envcheck.core.messages import _

NEXT = _("compare with the neighboring rows; envcheck/compat/components.toml explains the keys")


@functools.cache
def own_version_table() -> CompatibilityTable:
    """Return the tables that ship with envcheck; read only once."""
    return build_version_table(own_files())


def build_version_table(files: Sequence[CompatFile]) -> CompatibilityTable:
    """Return the tables of all files as one."""
    sources = {name: text for file in files for name, text in file.sources.items()}
    rows = tuple(row for file in files for row in _read_rows(file, sources))
    rules = tuple(rule for file in files for rule in _read_rules(file, sources))
    return CompatibilityTable(
        rows=rows,
        rules=rules,
        images=tuple(image for file in files for image in _read_images(file)),
        renamed=tuple(each for file in files for each in _read_renamed_options(file)),
        sources=sources,
        indexes={package: folder for file in files for folder, package in file.indexes.devices.items()},
        index_pattern=next((file.indexes.pattern for file in files if file.indexes.pattern), ""),
        urls={package: url for file in files for package, url in _read_index_urls(file, sources)},
        pairs=_index_pairs(rows, rules),
        goals={(file.vendor, framework): goal for file in files for framework, goal in _read_goals(file)},
    )


def _read_goals(file: CompatFile) -> Iterator[tuple[str, SolverGoal]]:
    for framework, goal in file.goals.items():
        _check_components(
            f"{file.name}: goals.{framework}", goal.driver, *goal.wanted, *goal.beside, *sum(goal.links, ())
        )
        yield framework, goal


def _index_pairs(
    rows: Iterable[VersionRow], rules: Iterable[VersionRule]
) -> dict[tuple[str, str], tuple[VersionRow, ...]]:
    """Return the rows by (of, other), in the order of the files."""
    found: dict[tuple[str, str], tuple[VersionRow, ...]] = {rule.pair: () for rule in rules}
    for row in rows:
        for other in row.others:
            key = (row.of, other)
            found[key] = (*found.get(key, ()), row)
    return found


def _read_rows(file: CompatFile, sources: Mapping[str, str]) -> Iterator[VersionRow]:
    for group in file.groups:
        _check_components(file.name, group.of)
        for number, row in enumerate(group.rows, 1):
            where = f"{file.name}: {group.of}, row {number}"
            _check_components(where, *row.others)
            if not row.others:
                raise UsageError(_("{where}: `with` is empty", where=where), NEXT)
            for component, versions in ((group.of, row.version), *row.others.items()):
                _check_patterns(where, component, versions)
            _check_source(where, row.source, row.date, sources)
            yield replace(row, of=group.of)


def _read_rules(file: CompatFile, sources: Mapping[str, str]) -> Iterator[VersionRule]:
    for number, rule in enumerate(file.rules, 1):
        where, (left, right) = f"{file.name}: rule {number}", rule.pair
        _check_components(where, left, right)
        _check_source(where, rule.source, rule.date, sources)
        row = VersionRow(
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
        yield VersionRule(rule.pair, rule.relation, row)


def _read_images(file: CompatFile) -> Iterator[ImageVersions]:
    for group in file.images:
        for held in group.holds:
            holds = {name: text for name, text in held.items() if name not in ("tag", "doubt")}
            references = tuple(f"{place}:{held['tag']}" for place in group.repositories)
            yield ImageVersions(references, holds, group.source, group.date, held.get("doubt", ""))


def _read_renamed_options(file: CompatFile) -> Iterator[RenamedOption]:
    for group in file.options:
        for old, new in group.renamed:
            yield RenamedOption(group.tool, group.since, old, new, group.source, group.date, group.note)


def _read_index_urls(file: CompatFile, sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in file.urls:
        _check_source(f"{file.name}: urls", (each.source,), each.date, sources)
        _check_components(f"{file.name}: urls", each.package)
        yield each.package, each.url


def _check_source(where: str, named: Sequence[str], date: str, sources: Mapping[str, str]) -> None:
    if not named or any(name not in sources for name in named) or not date:
        raise UsageError(
            _("{where}: source or date is missing, or the source is not in sources.toml", where=where), NEXT
        )


def _check_components(where: str, *names: str) -> None:
    if strange := [name for name in names if name not in load_components()]:
        raise UsageError(_("{where}: unknown component {strange!r}", where=where, strange=strange[0]), NEXT)


def _check_patterns(where: str, component: str, versions: Sequence[str]) -> None:
    wrong = [text for text in versions if not version_patterns.is_readable(component, text)]
    if wrong or not versions:
        raise UsageError(
            _(
                "{where}: {component} {wrong!r} is not a version or version range",
                where=where,
                component=component,
                wrong=wrong[0] if wrong else "",
            ),
            NEXT,
        )
