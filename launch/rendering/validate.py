"""Validate the user's option values: each by the kind of its option, and all of them as a combination."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, fill, join, mark, ngettext
from envcheck.core.toml_file import load_own_table
from installers.recipes.recipe import RecipeJob
from launch.rendering.argument_rows import Rows, parse_rows

_NUMBER = re.compile(r"[+-]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
MAX_LISTED = 12  # numbers listed in a message


@dataclass(frozen=True)
class ValueKind:
    """A kind of value: `words` describe it, `written` matches its text, `is_valid` checks the number."""

    words: str
    example: str
    is_valid: Callable[[float], bool]
    written: re.Pattern[str] = _NUMBER


KINDS_FILE, SYNCED_FILE = (Path(__file__).with_name(name) for name in ("kinds.toml", "synced.toml"))
# The tables of kinds.toml.
KINDS: Mapping[str, ValueKind] = {
    "count": ValueKind(mark("a whole number of at least 1"), "8", lambda n: n >= 1, re.compile(r"\d{1,9}")),
    "positive": ValueKind(mark("a number above 0"), "1e-5", lambda n: 0 < n < math.inf),
    "amount": ValueKind(mark("a number of at least 0"), "1", lambda n: 0 <= n < math.inf),
    "share": ValueKind(mark("a number from 0 to 1"), "0.1", lambda n: 0 <= n <= 1),
}


def check_values(given: Rows) -> None:
    """Raise UsageError for a value that is not of the kind of its option."""
    for kind, names in load_own_table(KINDS_FILE).items():
        for name in given.keys() & set(names):
            text, value_kind = " ".join(given[name]), KINDS[kind]
            is_number = len(given[name]) == 1 and value_kind.written.fullmatch(text)
            if not is_number or not value_kind.is_valid(float(text)):
                raise UsageError(
                    _("{name} expects {kind}, got {value!r}", name=name, kind=fill(value_kind.words), value=text[:80]),
                    _("for example --set {name}={example}", name=name, example=value_kind.example),
                )


def check_combination(job: RecipeJob) -> None:
    """Raise UsageError, naming valid values, if options of the user and of the job contradict each other."""
    _check_warmup(job)
    _check_degrees(job)


def _check_warmup(job: RecipeJob) -> None:
    most, warm = job.steps.get("max"), job.steps.get("warmup")
    if most is None or warm is None or warm < most:
        return
    of_all, of_warm = _find_option_name(job, "steps", "max"), _find_option_name(job, "steps", "warmup")
    words = _(
        "{warmup_option}={warmup} is not below {steps_option}={steps}: the learning rate would never reach its target",
        warmup_option=of_warm,
        warmup=warm,
        steps_option=of_all,
        steps=most,
    )
    step = _(
        "set {warmup_option} below {steps}, or {steps_option} above {warmup}, "
        "for example --set {warmup_option}={example}",
        warmup_option=of_warm,
        steps=most,
        steps_option=of_all,
        warmup=warm,
        example=most // 20,
    )
    raise UsageError(words, step)


def _check_degrees(job: RecipeJob) -> None:
    world, product = job.nodes * job.processes, math.prod(job.parallel.values())
    if not job.parallel or (product > 0 and world % product == 0):
        return
    degrees = " x ".join(
        f"{_find_option_name(job, 'parallel', name)} {degree}" for name, degree in job.parallel.items()
    )
    processes = ngettext("{count} process", "{count} processes", world)
    legal = join("; ", _list_legal_degrees(job, world))
    step = (
        _("with the other degrees unchanged, use {legal}", legal=legal)
        if legal
        else _("use degrees whose product is one of {products}", products=_format_divisors(world))
    )
    raise UsageError(
        _(
            "{degrees} = {product}, which does not divide {processes}",
            degrees=degrees,
            product=product,
            processes=processes,
        ),
        step,
    )


def _list_legal_degrees(job: RecipeJob, world: int) -> Iterator[Message]:
    """Yield the valid values of each degree while the others stay unchanged."""
    for name in job.parallel:
        rest = math.prod(degree for other, degree in job.parallel.items() if other != name)
        if name != "data" and rest and world % rest == 0:
            option = _find_option_name(job, "parallel", name)
            yield _("{option} {values}", option=option, values=_format_divisors(world // rest))


def _format_divisors(number: int) -> Message:
    return join(", ", [str(n) for n in range(1, number + 1) if number % n == 0][:MAX_LISTED])


def _find_option_name(job: RecipeJob, table: str, meant: str) -> str:
    """Return the program's option for a count of the job; our own name if it has none."""
    names = [name for name, ours in load_own_table(SYNCED_FILE)[table].items() if ours == meant]
    there = parse_rows(job.arguments)
    return next((name for name in names if name in there), meant)
