"""Plan a job for several values of one option: seq-len=2048..131072 (doubling) or micro-batch=1,2,4."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from launch.planner import LaunchPlan

DEGREES = ("cards", "tp", "pp", "vpp", "ep", "etp", "cp")
AXES = ("seq-len", "micro-batch", "grad-accum", *DEGREES, "lora-rank", "memory-gib", "used-gib")
MAX_AXIS_VALUES = 64


def parse_axis(text: str) -> tuple[str, list[int]]:
    """Return option and values of NAME=FIRST..LAST (doubling) or NAME=A,B,C; UsageError for anything else."""
    name, _unused, values = text.partition("=")
    name = name.strip().lstrip("-").replace("_", "-").lower()
    if name not in AXES:
        more = _("choose one of {axes}", axes=join(", ", AXES))
        raise UsageError(
            _("--sweep {said}: {name} cannot be swept", said=text, name=name or _("no value")),
            suggestions.suggest(name, AXES, more=more),
        )
    if ends := re.fullmatch(r"\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*", values):
        first, last = int(ends[1]), int(ends[2])
        numbers = [first << n for n in range(MAX_AXIS_VALUES) if first << n <= last] if first else []
        if numbers and numbers[-1] != last:
            numbers.append(last)
    else:
        numbers = [int(v) if re.fullmatch(r"\s*\d{1,9}\s*", v, re.ASCII) else 0 for v in values.split(",")]
    if not numbers or min(numbers) < 1:
        raise UsageError(
            _("--sweep {said}: expected ascending integers from 1", said=text),
            _("use --sweep {name}=1..8 or --sweep {name}=1,2,4", name=name),
        )
    if len(numbers) > MAX_AXIS_VALUES:
        raise UsageError(
            _("--sweep {name}: {count} values", name=name, count=len(numbers)),
            _("use at most {longest} values", longest=MAX_AXIS_VALUES),
        )
    return name, list(dict.fromkeys(numbers))


def sweep_option(
    name: str, values: Iterable[int], plan_value: Callable[[str, int], LaunchPlan]
) -> list[tuple[int, LaunchPlan | str]]:
    """Return each value with its plan, or with the reason to reject it.

    UsageError if all values are rejected for the same reason: it is not in them.
    """
    points: list[tuple[int, LaunchPlan | str]] = []
    errors: list[UsageError] = []
    for value in values:
        try:
            points.append((value, plan_value(name, value)))
        except UsageError as err:
            errors.append(err)
            points.append((value, err.message))
    if len(errors) == len(points) and len({err.message for err in errors}) == 1:
        raise errors[0]
    return points
