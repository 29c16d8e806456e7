"""Plan a job for several values of one option: seq-len=2048..131072 (doubling) or micro-batch=1,2,4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from launch.memory.open_inputs import settle_inputs
from launch.memory.planned_job import PlannedJob
from launch.planner import LaunchPlan, layout_rules, verdict

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


def set_axis_value(job: PlannedJob, name: str, value: int) -> PlannedJob:
    """Return the job with one value changed."""
    if name in DEGREES:
        changed: dict[str, Any] = {name: value}
        return replace(job, layout=replace(job.layout, **changed))
    if name == "lora-rank":
        return replace(job, adapter=replace(job.adapter, rank=value))
    if name == "memory-gib":
        return replace(job, memory_gib=float(value))
    if name == "used-gib":
        return replace(job, device=replace(job.device, idle_gib=float(value)))
    if name == "grad-accum":
        return settle_inputs(replace(job, grad_accum=value), "grad_accum")
    return replace(job, seq_len=value) if name == "seq-len" else replace(job, micro_batch=value)


def sweep_option(job: PlannedJob, text: str) -> Iterator[tuple[int, LaunchPlan | str]]:
    """Yield each value with its plan, or with the reason to reject it."""
    name, numbers = parse_axis(text)
    if name == "lora-rank" and job.trains_all:
        raise UsageError(
            _("--sweep {said}: this method trains the full model and uses no adapters", said=text),
            _("use --method lora"),
        )
    for value in numbers:
        other = set_axis_value(job, name, value)
        reason = next(layout_rules.list_refusals(other), None)
        yield value, reason or verdict.evaluate_job(other)
