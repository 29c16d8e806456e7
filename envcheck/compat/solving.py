"""The newest set of versions that is tested together, for a driver, and what other drivers would allow.

A set gives each component of a goal one version that the tables name; it counts when each of the goal's links is
tested and nothing in it is known bad.  Newer means: in the order of the goal's components.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from envcheck.compat import judging, loading, patterns
from envcheck.compat.components import components
from envcheck.compat.model import Confidence, Goal, Image, Standing, Table, Verdict
from envcheck.core import versions

NAMED_LIMIT = 6


@dataclass(frozen=True)
class Choice:
    """A set: the version of each component, driver and processor included, and the verdicts that carry it.

    `stated`: every link is stated somewhere; else one follows from other facts only.
    """

    versions: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    stated: bool
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class Answer:
    """`best` for the driver; `guess` where none is tested but one follows from other facts; `others` by their driver.

    `missing` says, where there is no best, what no table names for the driver or the processor.
    """

    best: Choice | None
    guess: Choice | None = None
    others: tuple[Choice, ...] = ()
    missing: tuple[str, ...] = ()


def solve(goal: Goal, driver: str, architecture: str, table: Table | None = None, python: str = "") -> Answer:
    """The newest tested set for the driver, and those of other drivers that would be newer (all, where it has none).

    `python` is the one that is there: it stays where the set works with it.
    """
    known = table or loading.table()
    best = newest(goal, driver, architecture, known, python=python)
    if best:
        return Answer(best, None, tuple(_others(goal, driver, architecture, known, best)))
    guess = newest(goal, driver, architecture, known, Confidence.INFERRED, python)
    others = tuple(_others(goal, driver, architecture, known, None))
    return Answer(None, guess, others, tuple(_missing(goal, driver, architecture, known)))


def standing_here(goal: Goal, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on the goal's links where the whole set is installed and nothing of it is known bad; () elsewhere.

    What is not tested among them is unknown, which is no failure: the active test decides.
    """
    judged = tuple(verdicts)
    links = tuple(v for v in judged if (v.left, v.right) in goal.links)
    whole = {name for v in links for name in (v.left, v.right)} >= {goal.driver, *goal.wanted}
    return links if whole and not any(v.standing is Standing.BAD for v in judged) else ()


def newest(
    goal: Goal,
    driver: str,
    architecture: str,
    table: Table,
    least: Confidence = Confidence.REPORTED,
    python: str = "",
) -> Choice | None:
    """The first set, from the newest down, whose links are known at least that well.

    An older Python is taken where what stands beside the set has nothing for the newest.
    """
    held = {goal.driver: driver, "architecture": architecture}
    first: Choice | None = None
    for found in _sets(goal, goal.wanted, held, table, least, python):
        choice = _choice(goal, found, table)
        if first and any(found[name] != first.versions[name] for name in goal.wanted if name != "python"):
            break
        if choice and all(name in choice.versions for name in goal.beside):
            return choice
        first = first or choice
    return first


def _choice(goal: Goal, found: dict[str, str], table: Table) -> Choice | None:
    """The set with what stands beside it; None where something in it is known bad."""
    verdicts = judging.judge(found, table=table)
    if any(v.standing is Standing.BAD for v in verdicts):
        return None
    carrying = tuple(v for v in verdicts if (v.left, v.right) in goal.links)
    stated = all(v.standing is Standing.TESTED for v in carrying)
    return Choice({**found, **_beside(goal, found, table)}, carrying, stated, images(found, table))


def _sets(
    goal: Goal, left: tuple[str, ...], held: dict[str, str], table: Table, least: Confidence, python: str
) -> Iterator[dict[str, str]]:
    """All sets, newest first: the first component's newest version is kept while anything goes with it."""
    if not left:
        yield held
        return
    name = left[0]
    links = [link for link in goal.links if name in link and set(link) <= {*held, name}]
    here = python if name == "python" else ""
    for version in sorted(candidates(name, table), key=lambda v: not (here and patterns.fits(name, here, (v,)))):
        found = {**held, name: version}
        if all(_linked(_verdict(*link, found[link[0]], found[link[1]], table), least) for link in links):
            yield from _sets(goal, left[1:], found, table, least, python)


@functools.lru_cache(maxsize=1 << 16)
def _verdict(left: str, right: str, mine: str, other: str, table: Table) -> Verdict | None:
    return judging.pair(left, right, {left: mine, right: other}, table=table)


def _linked(verdict: Verdict | None, least: Confidence) -> bool:
    if verdict is None or verdict.standing is Standing.BAD:
        return False
    guessed = least is Confidence.INFERRED and verdict.confidence is Confidence.INFERRED
    return verdict.standing is Standing.TESTED or guessed


def _beside(goal: Goal, found: Mapping[str, str], table: Table) -> dict[str, str]:
    """Of each package beside the set, the newest version that something in the set was tested with, and nothing bad."""
    chosen: dict[str, str] = {}
    for name in goal.beside:
        for version in candidates(name, table):
            verdicts = [
                v for v in judging.judge({**found, **chosen, name: version}, table=table) if name in (v.left, v.right)
            ]
            standings = {v.standing for v in verdicts}
            if Standing.TESTED in standings and Standing.BAD not in standings:
                chosen[name] = version
                break
    return chosen


def _missing(goal: Goal, driver: str, architecture: str, table: Table) -> Iterator[str]:
    """Which link lets nothing through: one to what is given, or the next one behind it."""
    given = {goal.driver: driver, "architecture": architecture}
    open_for = {name: [version] for name, version in given.items()}
    behind: dict[str, str] = {}  # what a component was already held against
    for left, right in goal.links:
        rights = open_for.get(right)
        if rights is None or left == goal.driver:
            continue
        verdicts = [v for r in rights for c in candidates(left, table) if (v := _verdict(left, right, c, r, table))]
        tested = [v.left_version for v in verdicts if v.standing is Standing.TESTED]
        open_for[left] = [version for version in tested if version in open_for.get(left, tested)]
        with_it = f"{components()[right].title} {', '.join(rights[:NAMED_LIMIT])}"
        if not tested:
            bad = next((v.symptom for v in verdicts if v.standing is Standing.BAD), "") if right in given else ""
            yield f"no {components()[left].title} is named with {with_it}{bad and ': ' + bad}"
            return
        if not open_for[left]:
            yield f"no {components()[left].title} is named with {behind[left]} and with {with_it}"
            return
        behind.setdefault(left, with_it)


@functools.lru_cache(maxsize=256)
def candidates(component: str, table: Table) -> tuple[str, ...]:
    """The versions that the tables name, newest first; of ">=X" the least, X."""
    named = {text for row in table.rows if row.of == component for text in row.version}
    named |= {text for row in table.rows for text in row.others.get(component, ())}
    least = {text.removeprefix(">=") for text in named if "," not in text}
    one = [text for text in least if patterns.literal(text) and patterns.comparable(component, text)]
    return tuple(sorted(one, key=lambda text: (versions.key(text) or (), text), reverse=True))


def _others(goal: Goal, driver: str, architecture: str, table: Table, best: Choice | None) -> Iterator[Choice]:
    """From the driver that is nearest: each set that is newer than all before; without a best, older drivers' too."""
    named = [v for v in reversed(candidates(goal.driver, table)) if not _same(goal.driver, driver, v)]
    above = [v for v in named if versions.compare(v, driver) == 1]
    yield from _rising(goal, above, architecture, table, best)
    if best is None:
        below = (newest(goal, v, architecture, table) for v in reversed(named) if versions.compare(v, driver) == -1)
        yield from [choice for choice in below if choice][:1]


def _rising(
    goal: Goal, drivers: Iterable[str], architecture: str, table: Table, best: Choice | None
) -> Iterator[Choice]:
    for version in drivers:
        found = newest(goal, version, architecture, table)
        if found and (best is None or newer(goal, found, best)):
            yield found
            best = found


def newer(goal: Goal, left: Choice, right: Choice) -> bool:
    """Whether the first component in which they differ is newer in `left`; Python alone makes no set newer."""
    for name in goal.wanted:
        order = versions.compare(left.versions[name], right.versions[name])
        if order and name != "python":
            return order > 0
    return False


def _same(component: str, driver: str, version: str) -> bool:
    return bool(patterns.fits(component, driver, (version,)))


def images(found: Mapping[str, str], table: Table) -> tuple[Image, ...]:
    """The images in which nothing contradicts the set, those that hold most of it first.  A chip is not asked for."""
    fitting = [image for image in table.images if _suits(image, found, table)]
    return tuple(sorted(fitting, key=lambda image: (bool(image.doubt), -len(set(image.holds) & set(found)))))


def _suits(image: Image, found: Mapping[str, str], table: Table) -> bool:
    if any(goal.wanted[0] in image.holds and goal.wanted[0] not in found for goal in table.goals.values()):
        return False  # another framework's
    asked = {name: version for name, version in image.holds.items() if name in found}
    essential = {name for name in asked if components()[name].builds and name != "python"}
    return bool(essential) and all(patterns.fits(name, found[name], (v,)) for name, v in asked.items())
