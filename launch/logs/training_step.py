"""One step of a training, as logged by its program."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from envcheck.core.language import translate
from envcheck.core.messages import Message, _


@dataclass(frozen=True)
class TrainingStep:
    """Step `step` of `of`, None if the log has no numbers; `loss` may be NaN.

    `tokens_per_s` is that of the whole job, `tokens_per_s_card` per card (PaddleFormers, torchtune).  `seconds` is the
    logged time per step, `data_seconds` the part of the data loader, `memory_mib` the peak memory of the device.
    """

    loss: float
    step: int | None = None
    tokens_per_s: float | None = None
    memory_mib: float | None = None
    of: int | None = None
    learning_rate: float | None = None
    grad_norm: float | None = None
    samples_per_s: float | None = None
    tokens_per_s_card: float | None = None
    seconds: float | None = None
    epoch: float | None = None
    data_seconds: float | None = None


def is_same_step(one: TrainingStep, other: TrainingStep | None) -> bool:
    """Return whether two steps have equal values; a NaN equals a NaN, as of the same line logged twice."""
    if other is None:
        return False
    pairs = zip(astuple(one), astuple(other), strict=True)
    return all(a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b)) for a, b in pairs)


def describe_step(step: TrainingStep, of: int | None = None, left_s: float | None = None) -> str:
    """'step 3 of 50, loss 4.2720, lr 0.001, 4963 tokens/s, 376 MiB, 2 min left'"""
    of = of or step.of
    parts = [
        ""
        if step.step is None
        else translate(
            _("step {step} of {total}", step=step.step, total=of) if of else _("step {step}", step=step.step)
        ),
        translate(_("loss {loss}", loss=f"{step.loss:.4f}")),
        "" if step.learning_rate is None else f"lr {step.learning_rate:.3g}",
        *_describe_speed(step),
        "" if step.memory_mib is None else f"{step.memory_mib:.0f} MiB",
        "" if left_s is None else translate(_("{duration} left", duration=format_duration(left_s))),
    ]
    return translate(_(", ")).join(filter(None, parts))


def _describe_speed(step: TrainingStep) -> list[str]:
    """Return the first known speed: tokens, tokens per card, samples, seconds per step."""
    speeds = (
        (step.tokens_per_s, ".0f", _("tokens/s")),
        (step.tokens_per_s_card, ".0f", _("tokens/s per card")),
        (step.samples_per_s, ".3g", _("samples/s")),
        (step.seconds, ".3g", _("s per step")),
    )
    return next(([f"{value:{form}} {translate(unit)}"] for value, form, unit in speeds if value is not None), [])


def format_duration(seconds: float) -> Message:
    """'8 s', '5 min', '3 h 20 min', '2 d 4 h'"""
    if seconds < 90:
        return _("{seconds:.0f} s", seconds=seconds)
    minutes = round(seconds / 60)
    if minutes < 60:
        return _("{minutes} min", minutes=minutes)
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return _("{hours} h {minutes} min", hours=hours, minutes=minutes)
    return _("{days} d {hours} h", days=hours // 24, hours=hours % 24)


def encode_number(value: float) -> float | str | None:
    """Return a number as JSON has it: the texts inf and -inf for infinite ones, None for NaN."""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return None if math.isnan(value) else value


def decode_number(value: object) -> float:
    """Return the number that `encode_number` encoded, NaN for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return float(value) if value in ("inf", "-inf") and isinstance(value, str) else math.nan
