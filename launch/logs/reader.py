"""Parse a growing log into steps.

Transformers does not number its lines: the number is in the progress bar that is redrawn right after the line, or
follows from the epoch and from the plan that the trainer prints before the first step.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from launch.logs.fields import has_only_loss, parse_fields, strip_control, to_whole_number
from launch.logs.training_step import TrainingStep, is_same_step

INFORMATIVE_IF_NAN = (
    "loss",
    "grad_norm",
    "learning_rate",
)  # NaN is informative for these; an infinite speed is meaningless
_PLAN_LINES = {
    "of": re.compile(r"Total optimization steps = ([\d,]{1,20})"),
    "examples": re.compile(r"Num examples = ([\d,]{1,20})"),
    "batch": re.compile(r"Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]{1,20})"),
}
# 25%|##5   | 3/12 [00:00<00:00, 29.11it/s], optionally after Train:, TrainProcess: or torchtune's 1|3|Loss: 2.5:
_BAR = re.compile(
    r"^(?:(?:Train\w{0,20}|\d{1,9}\|\d{1,12}\|Loss: ([^ ]{1,40})): )?\s{0,3}\d{1,3}%\|[^|]{0,400}\| "
    r"(\d{1,12})/(\d{1,12}) (\[[^]]{0,200}\]?)"
)
_LOSS_IN_BAR = re.compile(r", ?loss ?[=:] ?([^, \]]{1,40})", re.IGNORECASE)  # tqdm's set_postfix
# Not torch's warnings ([rank1]:[W1121 10:48:48.58 reducer.cpp:1529] ...): C++ writes them in pieces, so that the step
# of another rank may be on the same line.
_RANK = re.compile(r"^\[?(?:rank|default)[ _]?(\d{1,6})\]?: ?(?!\[[A-Z]\d{4} )", re.IGNORECASE)


def parse_step_line(line: str) -> TrainingStep | None:
    """Return the step in a line, None without one."""
    if "loss" not in line.lower():
        return None
    text = strip_control(line)
    found = parse_fields(text)
    if "loss" not in found or (len(found) == 1 and not text.startswith("{") and not has_only_loss(text)):
        return None
    return _build_step(found)


def _build_step(found: dict[str, float]) -> TrainingStep:
    steps_per_s = found.pop("steps_per_s", None)
    if steps_per_s and "seconds" not in found and math.isfinite(steps_per_s):
        found["seconds"] = 1 / steps_per_s
    numbers = {"step": to_whole_number(found.pop("step", None)), "of": to_whole_number(found.pop("of", None)) or None}
    values = {name: value for name, value in found.items() if name in INFORMATIVE_IF_NAN or math.isfinite(value)}
    return TrainingStep(**values, **numbers)  # type: ignore[arg-type]  # parse_fields uses the names of TrainingStep


class LogReader:
    """Parses lines in order; a step is returned once its number is known, at the latest with the next one or by
    `flush_waiting`."""

    def __init__(self) -> None:
        self.of: int | None = None
        self.plan: dict[str, int] = {}
        self.at: int | None = None  # step of the training's progress bar
        self.rank: str | None = None  # rank whose lines count, if several write to one log
        self.waiting: TrainingStep | None = None
        self.last: TrainingStep | None = None

    def feed_line(self, line: str) -> list[TrainingStep]:
        """Return the steps that this line completes: usually none, at most two."""
        if "%|" in line:
            return self._read_bar(strip_control(line))
        self._read_plan_line(line)
        step = parse_step_line(line)
        return self._accept_step(step, line) if step else []

    def flush_waiting(self) -> list[TrainingStep]:
        """Return the step that still lacks its number."""
        step, self.waiting = self.waiting, None
        return [] if step is None else [replace(step, step=self.at, of=step.of or self.of)]

    def _accept_step(self, step: TrainingStep, line: str) -> list[TrainingStep]:
        rank = _RANK.match(line)
        self.rank = self.rank or (rank[1] if rank else "")
        is_repeated = step == self.last or (step.step is not None and is_same_step(step, self.last))
        if self.rank != (rank[1] if rank else "") or is_repeated:
            return []
        self.last, self.of = step, step.of or self.of
        number = self._step_from_epoch(step) if step.step is None else step.step
        step = replace(step, step=number, of=step.of or self.of)
        if number is not None or self.at is None:
            return [step]
        before, self.waiting = self.flush_waiting(), step
        return before

    def _read_bar(self, text: str) -> list[TrainingStep]:
        """Parse a progress bar and the text after it: bars end without a line break."""
        bar = _BAR.match(text)
        if bar is None:
            return []
        rest = text[bar.end() :]
        after = self.feed_line(rest) if rest and "%|" not in rest else []
        if self.of is not None and int(bar[3]) != self.of:
            return after
        self.of, self.at = int(bar[3]), int(bar[2])
        postfix = _LOSS_IN_BAR.search(bar[4])
        loss = bar[1] or (postfix[1] if postfix else "")
        inside = parse_step_line(f"step: {bar[2]}, loss: {loss}, of") if loss else None
        return [*self.flush_waiting(), *(self._accept_step(inside, "") if inside else []), *after]

    def _read_plan_line(self, line: str) -> None:
        """Remember the plan printed before the first step; evaluations print a similar one later."""
        if " = " in line:
            for name, pattern in _PLAN_LINES.items():
                if found := pattern.search(line):
                    self.plan.setdefault(name, int(found[1].replace(",", "") or 0))
            self.of = self.of or self.plan.get("of")

    def _step_from_epoch(self, step: TrainingStep) -> int | None:
        examples, batch = self.plan.get("examples"), self.plan.get("batch")
        if step.epoch is None or not 0 <= step.epoch < 1e6 or not examples or not batch:
            return None
        return round(step.epoch * math.ceil(examples / batch))
