"""One step of a training, as its program told it."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.language import say


@dataclass(frozen=True)
class TrainingStep:
    """`step` of `of`, None where the program does not number its lines; `loss` may be no number.

    `tokens_per_s` is the whole job's; `tokens_per_s_card` one card's, where the program counts so (PaddleFormers,
    torchtune).  `seconds` is what one step takes, by the program; `memory_mib` the most that its device held.
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


def words(step: TrainingStep, of: int | None = None, left_s: float | None = None) -> str:
    """'step 3 of 50, loss 4.2720, lr 0.001, 4963 tokens/s, 376 MiB, 2 min left'"""
    of = of or step.of
    said = [
        "" if step.step is None else say("step {} of {}" if of else "step {}").format(step.step, of),
        say("loss {}").format(f"{step.loss:.4f}"),
        "" if step.learning_rate is None else f"lr {step.learning_rate:.3g}",
        *_speed(step),
        "" if step.memory_mib is None else f"{step.memory_mib:.0f} MiB",
        "" if left_s is None else say("{} left").format(duration(left_s)),
    ]
    return say(", ").join(filter(None, said))


def _speed(step: TrainingStep) -> list[str]:
    """The first that is known: tokens, tokens of a card, samples, seconds for a step."""
    told = (
        (step.tokens_per_s, ".0f", "tokens/s"),
        (step.tokens_per_s_card, ".0f", "tokens/s a card"),
        (step.samples_per_s, ".3g", "samples/s"),
        (step.seconds, ".3g", "s a step"),
    )
    return next(([f"{value:{form}} {say(unit)}"] for value, form, unit in told if value is not None), [])


def duration(seconds: float) -> str:
    """'8 s', '5 min', '3 h 20 min', '2 d 4 h'"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"
