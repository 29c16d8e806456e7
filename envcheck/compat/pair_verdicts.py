"""Evaluates the versions on a host with the tables: a verdict for each pair of components that a table lists."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from envcheck.compat import table_loader, version_patterns
from envcheck.compat.version_records import (
    CompatibilityTable,
    Confidence,
    PairStatus,
    PairVerdict,
    VersionRow,
    VersionRule,
)
from envcheck.core import versions
from envcheck.core.messages import mark

# The priority of rows: known bad before tested, and better known before less known.
_WORSE = {PairStatus.BAD: 0, PairStatus.TESTED: 1, PairStatus.UNKNOWN: 2}
_SURER = {c: n for n, c in enumerate(Confidence)}
NAMED_LIMIT = 6
LENGTH = 64  # characters; verdicts on longer, untrusted versions are not cached


def evaluate_pairs(
    installed: Mapping[str, str], host_rows: Iterable[VersionRow] = (), table: CompatibilityTable | None = None
) -> tuple[PairVerdict, ...]:
    """Return a verdict for each pair of installed components that the tables, or the host's own rows, list."""
    known, extra = table or table_loader.own_version_table(), tuple(host_rows)
    asked = dict.fromkeys([*known.pairs, *((row.of, other) for row in extra for other in row.others)])
    return tuple(
        _evaluate_cached(pair, installed, _rows_about(pair, extra), known)
        for pair in asked
        if pair[0] in installed and pair[1] in installed
    )


def evaluate_pair(
    left: str,
    right: str,
    installed: Mapping[str, str],
    host_rows: Iterable[VersionRow] = (),
    table: CompatibilityTable | None = None,
) -> PairVerdict | None:
    """Return the verdict on two components, in either order; None if one is missing or no table lists the pair."""
    known, extra = table or table_loader.own_version_table(), tuple(host_rows)
    if left not in installed or right not in installed:
        return None
    found = [
        _evaluate_cached(asked, installed, more, known)
        for asked in ((left, right), (right, left))
        if (more := _rows_about(asked, extra)) or asked in known.pairs
    ]
    return min(found, key=lambda v: _WORSE[v.standing], default=None)


def _rows_about(asked: tuple[str, str], rows: Iterable[VersionRow]) -> tuple[VersionRow, ...]:
    return tuple(row for row in rows if row.of == asked[0] and asked[1] in row.others)


def _evaluate_cached(
    asked: tuple[str, str], installed: Mapping[str, str], more: tuple[VersionRow, ...], table: CompatibilityTable
) -> PairVerdict:
    """Evaluate by the table's rows and `more`; verdicts of envcheck's own table alone are cached for all hosts."""
    mine, other = installed[asked[0]], installed[asked[1]]
    if more or table is not table_loader.own_version_table() or max(len(mine), len(other)) > LENGTH:
        return _evaluate_rows(asked, mine, other, (*table.pairs.get(asked, ()), *more), table)
    return _evaluate_own_table(asked, mine, other)


@functools.lru_cache(maxsize=4096)
def _evaluate_own_table(asked: tuple[str, str], mine: str, other: str) -> PairVerdict:
    return _evaluate_rows(
        asked, mine, other, table_loader.own_version_table().pairs.get(asked, ()), table_loader.own_version_table()
    )


def list_bad_rows(of: str, table: CompatibilityTable | None = None) -> Iterator[VersionRow]:
    """Return the rows that list versions failing with a version of `of`."""
    return (
        row
        for row in (table or table_loader.own_version_table()).rows
        if row.of == of and row.standing is PairStatus.BAD
    )


def list_tested(of: str, version: str, component: str, table: CompatibilityTable | None = None) -> tuple[str, ...]:
    """Return the component's versions that were tested with this version of `of`, the partner's first.

    Without a row, that of a rule by which both are of the same release.
    """
    known = table or table_loader.own_version_table()
    rows = known.pairs.get((of, component))
    if rows is None or not version_patterns.is_comparable(of, version):
        return ()
    near = [row for row in rows if version_patterns.fits_any(of, version, row.version)]
    return _list_tested_versions(near, component) or _list_same_release((of, component), version, known.rules)


def _list_same_release(asked: tuple[str, str], version: str, rules: Iterable[VersionRule]) -> tuple[str, ...]:
    is_of_release = any(rule.pair == asked and rule.relation == "same-release" for rule in rules)
    found = re.match(r"\d+(?:\.\d+)*", version) if is_of_release else None
    return (found[0],) if found else ()


def find_oldest_tested(
    of: str, component: str, table: CompatibilityTable | None = None
) -> tuple[str, VersionRow] | None:
    """Return the oldest version of the component that a row about `of` lists as tested, with the row; X for ">=X"."""
    stated = [
        (version, row)
        for row in (table or table_loader.own_version_table()).pairs.get((of, component), ())
        if effective_status(row) is PairStatus.TESTED
        for version in (text.removeprefix(">=") for text in row.others[component])
        if version_patterns.is_single_version(version) and "," not in version
    ]
    return min(stated, key=lambda found: versions.sort_key(found[0]) or (), default=None)


def _evaluate_rows(
    asked: tuple[str, str], mine: str, other: str, rows: tuple[VersionRow, ...], table: CompatibilityTable
) -> PairVerdict:
    left, right = asked
    if not (version_patterns.is_comparable(left, mine) and version_patterns.is_comparable(right, other)):
        note = mark("version not comparable")
        return PairVerdict(left, mine, right, other, PairStatus.UNKNOWN, note=note)
    near = [row for row in rows if version_patterns.fits_any(left, mine, row.version)]
    fitting = [row for row in near if version_patterns.fits_any(right, other, row.others[right])]
    decided = min(fitting, key=_row_priority, default=None) or _apply_rules(asked, mine, other, table.rules)
    named = () if decided and effective_status(decided) is PairStatus.TESTED else _list_tested_versions(near, right)
    if decided is None:
        return PairVerdict(left, mine, right, other, PairStatus.UNKNOWN, named=named)
    fields = {key: getattr(decided, key) for key in ("confidence", "source", "date", "symptom", "remedy", "note")}
    return PairVerdict(left, mine, right, other, effective_status(decided), named=named, **fields)


def effective_status(row: VersionRow) -> PairStatus:
    """Return the status of a row; a tested pair that is only inferred is unknown, a failure can be inferred."""
    guessed = row.confidence is Confidence.INFERRED and row.standing is PairStatus.TESTED
    return PairStatus.UNKNOWN if guessed else row.standing


def _row_priority(row: VersionRow) -> tuple[int, bool, int]:
    return _WORSE[effective_status(row)], not row.partner, _SURER[row.confidence]


def _list_tested_versions(rows: Iterable[VersionRow], right: str) -> tuple[str, ...]:
    """Return the tested versions in the tables, the partner's first."""
    tested = sorted((r for r in rows if effective_status(r) is PairStatus.TESTED), key=lambda r: not r.partner)
    return tuple(dict.fromkeys(text for row in tested for text in row.others[right]))[:NAMED_LIMIT]


def _apply_rules(asked: tuple[str, str], mine: str, other: str, rules: Iterable[VersionRule]) -> VersionRow | None:
    for rule in rules:
        if rule.pair == asked:
            held = RELATIONS[rule.relation](mine, other)
            return None if held is None else _kept_rule_row(rule.row) if held else _broken_rule_row(rule.row)
    return None


def _kept_rule_row(row: VersionRow) -> VersionRow:
    return replace(row, symptom="", remedy="", note=mark("based on the version number"))


def _broken_rule_row(row: VersionRow) -> VersionRow:
    return replace(row, standing=PairStatus.BAD)


def _is_same_minor(mine: str, other: str) -> bool | None:
    """Return whether the minor versions agree; None for a nightly build, whose number is its date."""
    if ".dev" in mine or ".dev" in other:
        return None
    left, right = (re.findall(r"\d+", text)[:2] for text in (mine, other))
    return left == right


def _is_same_release(mine: str, other: str) -> bool | None:
    """Return whether a build is made for a release: 2.7.1.post2 and 2.7.1rc1 are for 2.7.1, not for 2.7.0."""
    numbers = re.match(r"\d+(\.\d+)*", mine.strip())
    order = versions.compare_versions(numbers[0], other) if numbers else None
    return None if order is None else order == 0


RELATIONS: dict[str, Callable[[str, str], bool | None]] = {
    "same-minor": _is_same_minor,
    "same-release": _is_same_release,
}
