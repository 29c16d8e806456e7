"""One option over a range: seq-len=2048..131072, micro-batch=1..32; doubling from the first to the last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UsageError
from launch.memory.job import PlannedJob
from launch.planner import LaunchPlan, legal, verdict

DEGREES = ("cards", "tp", "pp", "vpp", "ep", "etp", "cp")
AXES = ("seq-len", "micro-batch", "grad-accum", *DEGREES, "lora-rank", "memory-gib", "used-gib")
LONGEST = 64


def axis(said: str) -> tuple[str, list[int]]:
    """name=first..last (doubling) or name=a,b,c."""
    name, _, values = said.partition("=")
    name = name.strip().lstrip("-").replace("_", "-")
    if name not in AXES:
        raise UsageError(f"--sweep {said}: {name or 'nothing'} cannot be swept", f"choose one of {', '.join(AXES)}")
    if ends := re.fullmatch(r"\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*", values):
        first, last = int(ends[1]), int(ends[2])
        numbers = [first << n for n in range(LONGEST) if first << n <= last] if first else []
        if numbers and numbers[-1] != last:
            numbers.append(last)
    else:
        numbers = [int(v) if re.fullmatch(r"\s*\d{1,9}\s*", v, re.ASCII) else 0 for v in values.split(",")]
    if not numbers or min(numbers) < 1:
        raise UsageError(
            f"--sweep {said}: not whole numbers from 1 on, rising", f"write --sweep {name}=1..8 or --sweep {name}=1,2,4"
        )
    if len(numbers) > LONGEST:
        raise UsageError(f"--sweep {name}: {len(numbers)} values", f"at most {LONGEST}")
    return name, list(dict.fromkeys(numbers))


def at(job: PlannedJob, name: str, value: int) -> PlannedJob:
    """The job with one number changed."""
    if name in DEGREES:
        changed: dict[str, Any] = {name: value}
        layout = replace(job.layout, **changed)
        return replace(job, layout=layout, sequence_parallel=layout.tp > 1)
    if name == "lora-rank":
        return replace(job, adapter=replace(job.adapter, rank=value))
    if name == "memory-gib":
        return replace(job, memory_gib=float(value))
    if name == "used-gib":
        return replace(job, device=replace(job.device, idle_gib=float(value)))
    if name == "grad-accum":
        return replace(job, grad_accum=value)
    return replace(job, seq_len=value) if name == "seq-len" else replace(job, micro_batch=value)


def sweep(job: PlannedJob, said: str) -> Iterator[tuple[int, LaunchPlan | str]]:
    """Each value with its plan, or with what stands against it."""
    name, numbers = axis(said)
    if name == "lora-rank" and job.trains_all:
        raise UsageError(f"--sweep {said}: the whole model is trained, no adapters", "sweep it with --method lora")
    for value in numbers:
        other = at(job, name, value)
        against = next(legal.refusals(other), None)
        yield value, against or verdict.answer(other)
