"""Whether the values that the user gave can be used at all: by the kind of the option, and by what the job comes to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import own_table
from installers.recipes.recipe import RecipeJob
from launch.rendering.rows import Rows, rows

_NUMBER = re.compile(r"[+-]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
MOST = 12  # numbers that a sentence lists


@dataclass(frozen=True)
class ValueKind:
    """`holds` is asked of a number alone."""

    words: str
    example: str
    holds: Callable[[float], bool]
    written: re.Pattern[str] = _NUMBER


KINDS_FILE, SYNCED_FILE = (Path(__file__).with_name(name) for name in ("kinds.toml", "synced.toml"))
# The tables of kinds.toml.
KINDS: Mapping[str, ValueKind] = {
    "count": ValueKind("a whole number of at least 1", "8", lambda n: n >= 1, re.compile(r"\d{1,9}")),
    "positive": ValueKind("a number above 0", "1e-5", lambda n: 0 < n < math.inf),
    "amount": ValueKind("a number of at least 0", "1", lambda n: 0 <= n < math.inf),
    "share": ValueKind("a number from 0 to 1", "0.1", lambda n: 0 <= n <= 1),
}


def values(given: Rows) -> None:
    """UsageError for a value that no training can use."""
    for kind, names in own_table(KINDS_FILE).items():
        for name in given.keys() & set(names):
            text, meant = " ".join(given[name]), KINDS[kind]
            if len(given[name]) != 1 or not meant.written.fullmatch(text) or not meant.holds(float(text)):
                raise UsageError(
                    f"{name} wants {meant.words}, not {text[:80]!r}", f"for instance --set {name}={meant.example}"
                )


def whole(job: RecipeJob) -> None:
    """UsageError where the user's options and the job's own do not go together, with what would."""
    _warm_up(job)
    _degrees(job)


def _warm_up(job: RecipeJob) -> None:
    most, warm = job.steps.get("max"), job.steps.get("warmup")
    if most is None or warm is None or warm < most:
        return
    of_all, of_warm = _option(job, "steps", "max"), _option(job, "steps", "warmup")
    words = f"{of_warm}={warm} is not below {of_all}={most}: the learning rate would never get to its aim"
    step = f"take {of_warm} below {most}, or {of_all} above {warm}, for instance --set {of_warm}={most // 20}"
    raise UsageError(words, step)


def _degrees(job: RecipeJob) -> None:
    world, product = job.nodes * job.processes, math.prod(job.parallel.values())
    if not job.parallel or (product > 0 and world % product == 0):
        return
    said = " x ".join(f"{_option(job, 'parallel', name)} {degree}" for name, degree in job.parallel.items())
    processes = f"{world} process{'es' * (world != 1)}"
    legal = "; ".join(_legal(job, world))
    step = (
        f"with the others as they are, these would do: {legal}"
        if legal
        else f"take degrees whose product is one of {_listed(world)}"
    )
    raise UsageError(f"{said} = {product}, which does not divide {processes}", step)


def _legal(job: RecipeJob, world: int) -> Iterator[str]:
    """For each degree the ones that would do while the others stay."""
    for name in job.parallel:
        rest = math.prod(degree for other, degree in job.parallel.items() if other != name)
        if name != "data" and rest and world % rest == 0:
            yield f"{_option(job, 'parallel', name)} {_listed(world // rest)}"


def _listed(number: int) -> str:
    return ", ".join([str(n) for n in range(1, number + 1) if number % n == 0][:MOST])


def _option(job: RecipeJob, table: str, meant: str) -> str:
    """What the job's program calls it; our word where it has no option for it."""
    names = [name for name, ours in own_table(SYNCED_FILE)[table].items() if ours == meant]
    there = rows(job.arguments)
    return next((name for name in names if name in there), meant)
