"""What the tables say of the versions on a machine: a verdict for each two components that a table knows together."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from envcheck.compat import loading, patterns
from envcheck.compat.model import Confidence, Row, Rule, Standing, Table, Verdict
from envcheck.core import versions

# A row that decides before another: what fails before what works, what is known well before what is not.
_WORSE = {Standing.BAD: 0, Standing.TESTED: 1, Standing.UNKNOWN: 2}
_SURER = {c: n for n, c in enumerate(Confidence)}
NAMED_LIMIT = 6
LENGTH = 64  # characters of a version whose verdict is kept: a stranger's may have any number


def judge(installed: Mapping[str, str], told: Iterable[Row] = (), table: Table | None = None) -> tuple[Verdict, ...]:
    """A verdict for each pair of installed components that the tables know, or the machine's own `told`."""
    known, extra = table or loading.table(), tuple(told)
    asked = dict.fromkeys([*known.pairs, *((row.of, other) for row in extra for other in row.others)])
    return tuple(
        _judged(pair, installed, _of(pair, extra), known)
        for pair in asked
        if pair[0] in installed and pair[1] in installed
    )


def pair(
    left: str, right: str, installed: Mapping[str, str], told: Iterable[Row] = (), table: Table | None = None
) -> Verdict | None:
    """The verdict on two components, in this or the other order; None when one is absent or no table knows the two."""
    known, extra = table or loading.table(), tuple(told)
    if left not in installed or right not in installed:
        return None
    found = [
        _judged(asked, installed, more, known)
        for asked in ((left, right), (right, left))
        if (more := _of(asked, extra)) or asked in known.pairs
    ]
    return min(found, key=lambda v: _WORSE[v.standing], default=None)


def _of(asked: tuple[str, str], rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.of == asked[0] and asked[1] in row.others)


def _judged(asked: tuple[str, str], installed: Mapping[str, str], more: tuple[Row, ...], table: Table) -> Verdict:
    """By the table's rows and `more`; by our own table alone it is judged once for all machines of a fleet."""
    mine, other = installed[asked[0]], installed[asked[1]]
    if more or table is not loading.table() or max(len(mine), len(other)) > LENGTH:
        return _pair(asked, mine, other, (*table.pairs.get(asked, ()), *more), table)
    return _remembered(asked, mine, other)


@functools.lru_cache(maxsize=4096)
def _remembered(asked: tuple[str, str], mine: str, other: str) -> Verdict:
    return _pair(asked, mine, other, loading.table().pairs.get(asked, ()), loading.table())


def bad(of: str, table: Table | None = None) -> Iterator[Row]:
    """The rows that name what fails with a version of `of`."""
    return (row for row in (table or loading.table()).rows if row.of == of and row.standing is Standing.BAD)


def oldest(of: str, component: str, table: Table | None = None) -> tuple[str, Row] | None:
    """The oldest version of the component that a row about `of` states as tested, with the row; of ">=X", X."""
    stated = [
        (version, row)
        for row in (table or loading.table()).pairs.get((of, component), ())
        if standing(row) is Standing.TESTED
        for version in (text.removeprefix(">=") for text in row.others[component])
        if patterns.literal(version) and "," not in version
    ]
    return min(stated, key=lambda found: versions.key(found[0]) or (), default=None)


def _pair(asked: tuple[str, str], mine: str, other: str, rows: tuple[Row, ...], table: Table) -> Verdict:
    left, right = asked
    if not (patterns.comparable(left, mine) and patterns.comparable(right, other)):
        note = "a version that cannot be compared"
        return Verdict(left, mine, right, other, Standing.UNKNOWN, note=note)
    near = [row for row in rows if patterns.fits(left, mine, row.version)]
    fitting = [row for row in near if patterns.fits(right, other, row.others[right])]
    decided = min(fitting, key=_weight, default=None) or _ruled(asked, mine, other, table.rules)
    named = () if decided and standing(decided) is Standing.TESTED else _named(near, right)
    if decided is None:
        return Verdict(left, mine, right, other, Standing.UNKNOWN, named=named)
    told = {key: getattr(decided, key) for key in ("confidence", "source", "date", "symptom", "remedy", "note")}
    return Verdict(left, mine, right, other, standing(decided), named=named, **told)


def standing(row: Row) -> Standing:
    """What is stated nowhere is not tested; a failure may be inferred."""
    guessed = row.confidence is Confidence.INFERRED and row.standing is Standing.TESTED
    return Standing.UNKNOWN if guessed else row.standing


def _weight(row: Row) -> tuple[int, bool, int]:
    return _WORSE[standing(row)], not row.partner, _SURER[row.confidence]


def _named(rows: Iterable[Row], right: str) -> tuple[str, ...]:
    """What the tables do name, the partner first."""
    tested = sorted((r for r in rows if standing(r) is Standing.TESTED), key=lambda r: not r.partner)
    return tuple(dict.fromkeys(text for row in tested for text in row.others[right]))[:NAMED_LIMIT]


def _ruled(asked: tuple[str, str], mine: str, other: str, rules: Iterable[Rule]) -> Row | None:
    for rule in rules:
        if rule.pair == asked:
            held = RELATIONS[rule.relation](mine, other)
            return None if held is None else _held(rule.row) if held else _broken(rule.row)
    return None


def _held(row: Row) -> Row:
    return replace(row, symptom="", remedy="", note="by its number")


def _broken(row: Row) -> Row:
    return replace(row, standing=Standing.BAD)


def _same_minor(mine: str, other: str) -> bool | None:
    """None for a nightly: its number is the day it was built on, not the version that it belongs to."""
    if ".dev" in mine or ".dev" in other:
        return None
    left, right = (re.findall(r"\d+", text)[:2] for text in (mine, other))
    return left == right


def _same_release(mine: str, other: str) -> bool | None:
    """2.7.1.post2 and 2.7.1rc1 are made for 2.7.1, and for no other: neither for 2.7.0 nor for its own candidate."""
    numbers = re.match(r"\d+(\.\d+)*", mine.strip())
    order = versions.compare(numbers[0], other) if numbers else None
    return None if order is None else order == 0


RELATIONS: dict[str, Callable[[str, str], bool | None]] = {"same-minor": _same_minor, "same-release": _same_release}
