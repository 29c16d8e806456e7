"""Finds the newest set of versions tested together for a driver, and the sets that other drivers would allow.

A set has one version from the tables for each component of a goal; it is valid if each link of the goal is tested and
no pair in it is known bad.  Sets are compared in the order of the goal's components.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from envcheck.compat import pair_verdicts, table_loader, version_patterns
from envcheck.compat.components import load_components
from envcheck.compat.version_records import (
    CompatibilityTable,
    Confidence,
    ImageVersions,
    PairStatus,
    PairVerdict,
    SolverGoal,
)
from envcheck.core import versions
from envcheck.core.messages import Message, _, fill, join

NAMED_LIMIT = 6


@dataclass(frozen=True)
class VersionSet:
    """A set: the version of each component, including driver and architecture, with the verdicts on its links.

    `stated`: every link is documented; otherwise one is inferred.
    """

    versions: Mapping[str, str]
    verdicts: tuple[PairVerdict, ...]
    stated: bool
    images: tuple[ImageVersions, ...] = ()


@dataclass(frozen=True)
class VersionSolution:
    """`best` for the driver; `guess` if no set is tested but one can be inferred; `others` for other drivers.

    `missing`: without a best set, the components for which no table lists a version with the driver or architecture.
    """

    best: VersionSet | None
    guess: VersionSet | None = None
    others: tuple[VersionSet, ...] = ()
    missing: tuple[str, ...] = ()


def solve_versions(
    goal: SolverGoal, driver: str, architecture: str, table: CompatibilityTable | None = None, python: str = ""
) -> VersionSolution:
    """Return the newest tested set for the driver, and newer sets of other drivers (all sets, if the driver has
    none).

    `python` is the installed version, which is kept if the set works with it.
    """
    known = table or table_loader.own_version_table()
    best = find_newest_set(goal, driver, architecture, known, python=python)
    if best:
        return VersionSolution(best, None, tuple(_find_other_drivers(goal, driver, architecture, known, best)))
    guess = find_newest_set(goal, driver, architecture, known, Confidence.INFERRED, python)
    others = tuple(_find_other_drivers(goal, driver, architecture, known, None))
    return VersionSolution(None, guess, others, tuple(_explain_missing(goal, driver, architecture, known)))


def link_verdicts(goal: SolverGoal, verdicts: Iterable[PairVerdict]) -> tuple[PairVerdict, ...]:
    """Return the verdicts on the goal's links if the whole set is installed and no pair is known bad; otherwise ().

    A link that is not tested is unknown, which is not a failure: the hardware test decides.
    """
    judged = tuple(verdicts)
    links = tuple(v for v in judged if (v.left, v.right) in goal.links)
    whole = {name for v in links for name in (v.left, v.right)} >= {goal.driver, *goal.wanted}
    return links if whole and not any(v.standing is PairStatus.BAD for v in judged) else ()


def find_newest_set(
    goal: SolverGoal,
    driver: str,
    architecture: str,
    table: CompatibilityTable,
    least: Confidence = Confidence.REPORTED,
    python: str = "",
) -> VersionSet | None:
    """Return the newest set whose links have at least this confidence.

    An older Python is chosen if the packages beside the set have no version for the newest one.
    """
    held = {goal.driver: driver, "architecture": architecture}
    first: VersionSet | None = None
    for found in _iterate_sets(goal, goal.wanted, held, table, least, python):
        choice = _complete_set(goal, found, table)
        if first and any(found[name] != first.versions[name] for name in goal.wanted if name != "python"):
            break
        if choice and all(name in choice.versions for name in goal.beside):
            return choice
        first = first or choice
    return first


def _complete_set(goal: SolverGoal, found: dict[str, str], table: CompatibilityTable) -> VersionSet | None:
    """Return the set with its additional packages; None if a pair in it is known bad."""
    verdicts = pair_verdicts.evaluate_pairs(found, table=table)
    if any(v.standing is PairStatus.BAD for v in verdicts):
        return None
    carrying = tuple(v for v in verdicts if (v.left, v.right) in goal.links)
    stated = all(v.standing is PairStatus.TESTED for v in carrying)
    return VersionSet({**found, **_choose_companions(goal, found, table)}, carrying, stated, find_images(found, table))


def _iterate_sets(
    goal: SolverGoal,
    left: tuple[str, ...],
    held: dict[str, str],
    table: CompatibilityTable,
    least: Confidence,
    python: str,
) -> Iterator[dict[str, str]]:
    """Yield all sets, newest first: the newest version of the first component is kept as long as others fit it."""
    if not left:
        yield held
        return
    name = left[0]
    links = [link for link in goal.links if name in link and set(link) <= {*held, name}]
    here = python if name == "python" else ""
    for version in sorted(
        candidate_versions(name, table), key=lambda v: not (here and version_patterns.fits_any(name, here, (v,)))
    ):
        found = {**held, name: version}
        if all(_is_linked(_evaluate_link(*link, found[link[0]], found[link[1]], table), least) for link in links):
            yield from _iterate_sets(goal, left[1:], found, table, least, python)


@functools.lru_cache(maxsize=1 << 16)
def _evaluate_link(left: str, right: str, mine: str, other: str, table: CompatibilityTable) -> PairVerdict | None:
    return pair_verdicts.evaluate_pair(left, right, {left: mine, right: other}, table=table)


def _is_linked(verdict: PairVerdict | None, least: Confidence) -> bool:
    if verdict is None or verdict.standing is PairStatus.BAD:
        return False
    guessed = least is Confidence.INFERRED and verdict.confidence is Confidence.INFERRED
    return verdict.standing is PairStatus.TESTED or guessed


def _choose_companions(goal: SolverGoal, found: Mapping[str, str], table: CompatibilityTable) -> dict[str, str]:
    """Return the newest version of each additional package that is tested with the set and not known bad with it."""
    chosen: dict[str, str] = {}
    for name in goal.beside:
        for version in candidate_versions(name, table):
            verdicts = [
                v
                for v in pair_verdicts.evaluate_pairs({**found, **chosen, name: version}, table=table)
                if name in (v.left, v.right)
            ]
            standings = {v.standing for v in verdicts}
            if PairStatus.TESTED in standings and PairStatus.BAD not in standings:
                chosen[name] = version
                break
    return chosen


def _explain_missing(goal: SolverGoal, driver: str, architecture: str, table: CompatibilityTable) -> Iterator[Message]:
    """Yield the link that excludes all versions: one with a given component, or the next one after it."""
    given = {goal.driver: driver, "architecture": architecture}
    open_for = {name: [version] for name, version in given.items()}
    behind: dict[str, str] = {}  # the versions that a component was already compared with
    for left, right in goal.links:
        rights = open_for.get(right)
        if rights is None or left == goal.driver:
            continue
        verdicts = [
            v
            for r in rights
            for c in candidate_versions(left, table)
            if (v := _evaluate_link(left, right, c, r, table))
        ]
        tested = [v.left_version for v in verdicts if v.standing is PairStatus.TESTED]
        open_for[left] = [version for version in tested if version in open_for.get(left, tested)]
        with_it = _(
            "{title} {rights}", title=fill(load_components()[right].title), rights=join(", ", rights[:NAMED_LIMIT])
        )
        if not tested:
            bad = next((v.symptom for v in verdicts if v.standing is PairStatus.BAD), "") if right in given else ""
            missing = _(
                "no source lists a {title} version for {with_it}",
                title=fill(load_components()[left].title),
                with_it=with_it,
            )
            symptom = bad if isinstance(bad, Message) else fill(bad)
            yield _("{problem}: {symptom}", problem=missing, symptom=symptom) if bad else missing
            return
        if not open_for[left]:
            yield _(
                "no source lists a {title} version for both {behind} and {with_it}",
                title=fill(load_components()[left].title),
                behind=behind[left],
                with_it=with_it,
            )
            return
        behind.setdefault(left, with_it)


@functools.lru_cache(maxsize=256)
def candidate_versions(component: str, table: CompatibilityTable) -> tuple[str, ...]:
    """Return the versions in the tables, newest first; X for ">=X"."""
    named = {text for row in table.rows if row.of == component for text in row.version}
    named |= {text for row in table.rows for text in row.others.get(component, ())}
    least = {text.removeprefix(">=") for text in named if "," not in text}
    one = [
        text
        for text in least
        if version_patterns.is_single_version(text) and version_patterns.is_comparable(component, text)
    ]
    return tuple(sorted(one, key=lambda text: (versions.sort_key(text) or (), text), reverse=True))


def _find_other_drivers(
    goal: SolverGoal, driver: str, architecture: str, table: CompatibilityTable, best: VersionSet | None
) -> Iterator[VersionSet]:
    """Yield sets of newer drivers, nearest first, each newer than the one before; without a best set, also of older
    drivers."""
    named = [v for v in reversed(candidate_versions(goal.driver, table)) if not _is_same_driver(goal.driver, driver, v)]
    above = [v for v in named if versions.compare_versions(v, driver) == 1]
    yield from _iterate_newer_sets(goal, above, architecture, table, best)
    if best is None:
        below = (
            find_newest_set(goal, v, architecture, table)
            for v in reversed(named)
            if versions.compare_versions(v, driver) == -1
        )
        yield from [choice for choice in below if choice][:1]


def _iterate_newer_sets(
    goal: SolverGoal, drivers: Iterable[str], architecture: str, table: CompatibilityTable, best: VersionSet | None
) -> Iterator[VersionSet]:
    for version in drivers:
        found = find_newest_set(goal, version, architecture, table)
        if found and (best is None or is_newer_set(goal, found, best)):
            yield found
            best = found


def is_newer_set(goal: SolverGoal, left: VersionSet, right: VersionSet) -> bool:
    """Return whether the first component that differs is newer in `left`; Python alone does not make a set newer."""
    for name in goal.wanted:
        order = versions.compare_versions(left.versions[name], right.versions[name])
        if order and name != "python":
            return order > 0
    return False


def _is_same_driver(component: str, driver: str, version: str) -> bool:
    return bool(version_patterns.fits_any(component, driver, (version,)))


def find_images(found: Mapping[str, str], table: CompatibilityTable) -> tuple[ImageVersions, ...]:
    """Return the images that do not contradict the set, those with most of its components first.  The chip is
    ignored."""
    fitting = [image for image in table.images if _image_suits(image, found, table)]
    return tuple(sorted(fitting, key=lambda image: (bool(image.doubt), -len(set(image.holds) & set(found)))))


def _image_suits(image: ImageVersions, found: Mapping[str, str], table: CompatibilityTable) -> bool:
    if any(goal.wanted[0] in image.holds and goal.wanted[0] not in found for goal in table.goals.values()):
        return False  # an image of another framework
    asked = {name: version for name, version in image.holds.items() if name in found}
    essential = {name for name in asked if load_components()[name].builds and name != "python"}
    return bool(essential) and all(version_patterns.fits_any(name, found[name], (v,)) for name, v in asked.items())
