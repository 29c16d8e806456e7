"""A log as it grows → its steps.

Transformers does not number its lines: the number stands in the progress bar that is drawn anew right after the line,
or follows from the epoch and what the trainer said before it began.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from launch.logs.fields import fields, plain, whole
from launch.logs.step import TrainingStep

TELLING = ("loss", "grad_norm", "learning_rate")  # that these are no number says something; a speed of inf is none
_TOLD = {
    "of": re.compile(r"Total optimization steps = ([\d,]{1,20})"),
    "examples": re.compile(r"Num examples = ([\d,]{1,20})"),
    "batch": re.compile(r"Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]{1,20})"),
}
# 25%|##5   | 3/12 [00:00<00:00, 29.11it/s], after nothing, Train:, TrainProcess: or torchtune's 1|3|Loss: 2.5:
_BAR = re.compile(
    r"^(?:(?:Train\w{0,20}|\d{1,9}\|\d{1,12}\|Loss: ([^ ]{1,40})): )?\s{0,3}\d{1,3}%\|[^|]{0,400}\| "
    r"(\d{1,12})/(\d{1,12}) \[[^]]{0,80}\]?"
)
# Not torch's warnings ([rank1]:[W1121 10:48:48.58 reducer.cpp:1529] ...): another rank's step may stand on their line,
# as C++ writes them in pieces.
_RANK = re.compile(r"^\[?(?:rank|default)[ _]?(\d{1,6})\]?: ?(?!\[[A-Z]\d{4} )", re.IGNORECASE)


def read(line: str) -> TrainingStep | None:
    """The step that a line tells of by itself."""
    if "loss" not in line.lower():
        return None
    text = plain(line)
    found = fields(text)
    if "loss" not in found or (len(found) == 1 and not text.startswith("{")):
        return None
    return _step(found)


def _step(found: dict[str, float]) -> TrainingStep:
    steps_per_s = found.pop("steps_per_s", None)
    if steps_per_s and "seconds" not in found and math.isfinite(steps_per_s):
        found["seconds"] = 1 / steps_per_s
    numbers = {"step": whole(found.pop("step", None)), "of": whole(found.pop("of", None)) or None}
    told = {name: value for name, value in found.items() if name in TELLING or math.isfinite(value)}
    return TrainingStep(**told, **numbers)  # type: ignore[arg-type]  # fields() has Step's names


class LogReader:
    """Give it every line; a step comes back when its number is known, at the latest with the next, or with `rest`."""

    def __init__(self) -> None:
        self.of: int | None = None
        self.told: dict[str, int] = {}
        self.at: int | None = None  # where the training's bar stands
        self.rank: str | None = None  # whose lines count, where several write into one log
        self.waiting: TrainingStep | None = None
        self.last: TrainingStep | None = None

    def feed(self, line: str) -> list[TrainingStep]:
        """What became known with this line: mostly nothing, at most two."""
        if "%|" in line:
            return self._bar(plain(line))
        self._listen(line)
        step = read(line)
        return self._said(step, line) if step else []

    def rest(self) -> list[TrainingStep]:
        """The step that still waits for its number."""
        step, self.waiting = self.waiting, None
        return [] if step is None else [replace(step, step=self.at, of=step.of or self.of)]

    def _said(self, step: TrainingStep, line: str) -> list[TrainingStep]:
        rank = _RANK.match(line)
        self.rank = self.rank or (rank[1] if rank else "")
        if self.rank != (rank[1] if rank else "") or step == self.last:
            return []
        self.last, self.of = step, step.of or self.of
        number = self._of_epoch(step) if step.step is None else step.step
        step = replace(step, step=number, of=step.of or self.of)
        if number is not None or self.at is None:
            return [step]
        before, self.waiting = self.rest(), step
        return before

    def _bar(self, text: str) -> list[TrainingStep]:
        """A bar, and what may follow it on its line: bars end without one."""
        bar = _BAR.match(text)
        if bar is None:
            return []
        rest = text[bar.end() :]
        after = self.feed(rest) if rest and "%|" not in rest else []
        if self.of is not None and int(bar[3]) != self.of:
            return after
        self.of, self.at = int(bar[3]), int(bar[2])
        inside = read(f"step: {bar[2]}, loss: {bar[1]}, of") if bar[1] else None
        return [*self.rest(), *(self._said(inside, "") if inside else []), *after]

    def _listen(self, line: str) -> None:
        """What a trainer says of its plan before the first step; an evaluation says the like later."""
        if " = " in line:
            for name, pattern in _TOLD.items():
                if found := pattern.search(line):
                    self.told.setdefault(name, int(found[1].replace(",", "") or 0))
            self.of = self.of or self.told.get("of")

    def _of_epoch(self, step: TrainingStep) -> int | None:
        examples, batch = self.told.get("examples"), self.told.get("batch")
        if step.epoch is None or not 0 <= step.epoch < 1e6 or not examples or not batch:
            return None
        return round(step.epoch * math.ceil(examples / batch))
