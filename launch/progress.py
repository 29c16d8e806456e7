"""Steps in the words of the training programs: one line of a worker's log → a step, or None.

{"step": 3, "loss": 4.27, "tokens_per_s": 4963, "memory_mib": 376}                            ours
loss: 10.98, learning_rate: 1e-05, global_step: 3, ... interval_tokens_per_second: 812.5      PaddleFormers
... max_memory_allocated: 31.2, max_memory_reserved: 35.6 (GiB)                                on its accelerators
{'loss': 1.4213, 'grad_norm': 3.1, 'learning_rate': 4e-05, 'epoch': 0.02}                     transformers
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIB_IN_GIB = 1024
LINE_LIMIT = 20_000  # characters of a line that are looked at
_NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
_FIELDS = {
    "step": re.compile(r"\b(?:global_step|step)['\"]?: (\d+)"),
    "loss": re.compile(r"\bloss['\"]?: ['\"]?" + _NUMBER),
    "tokens_per_s": re.compile(r"\b(?:interval_)?tokens_per_sec(?:ond)?['\"]?: " + _NUMBER),
    "memory_mib": re.compile(r"\bmemory\(MiB\)['\"]?: " + _NUMBER),
    "memory_gib": re.compile(r"\b(?:memory\(GiB\)|max_memory_reserved)['\"]?: " + _NUMBER),
}


@dataclass(frozen=True)
class Step:
    """`step` is None where the program does not number its lines."""

    loss: float
    step: int | None = None
    tokens_per_s: float | None = None
    memory_mib: float | None = None


def read(line: str) -> Step | None:
    """The step that a line tells of."""
    text = line.strip()[:LINE_LIMIT]
    if "loss" not in text:
        return None
    said = _json(text) if text.startswith("{") else None
    return _step(said if said is not None else {name: _found(name, text) for name in _FIELDS})


def _json(text: str) -> Mapping[str, Any] | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _found(name: str, text: str) -> float | None:
    found = _FIELDS[name].search(text)
    return float(found[1]) if found else None


def _step(said: Mapping[str, Any]) -> Step | None:
    names = ("loss", "step", "tokens_per_s", "memory_mib", "memory_gib")
    loss, step, speed, memory, larger = (_number(said.get(name)) for name in names)
    if memory is None and larger is not None:
        memory = larger * MIB_IN_GIB
    if loss is None:
        return None
    return Step(loss, None if step is None or not math.isfinite(step) else int(step), speed, memory)


def _number(value: object) -> float | None:
    """None for what is no number, and for numbers that are too big to be one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def words(step: Step, of: int | None) -> str:
    """'step 3 of 50, loss 4.2720, 4963 tokens/s, 376 MiB'"""
    number = "" if step.step is None else f"step {step.step}{f' of {of}' if of else ''}, "
    speed = "" if step.tokens_per_s is None else f", {step.tokens_per_s:.0f} tokens/s"
    memory = "" if step.memory_mib is None else f", {step.memory_mib:.0f} MiB"
    return f"{number}loss {step.loss:.4f}{speed}{memory}"
