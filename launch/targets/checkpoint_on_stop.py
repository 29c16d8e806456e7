"""Which trainings save a checkpoint when they are asked to end, and how long they may take for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.job.command import TrainingCommand
from launch.rendering.rows import rows

NO = ("false", "0", "no", "off")


@dataclass(frozen=True)
class Saver:
    """An option of the training with which SIGTERM to a worker means: save, then end."""

    option: str
    grace_s: float
    source: str


SAVERS = (
    Saver(
        "enable_jit_checkpoint",
        600.0,  # ours: 4.2 TB of a 300B job at 8 GB/s take 9 minutes
        "transformers 5, TrainingArguments: saved at the next step, three seconds after the signal",
    ),
)


def grace_s(command: TrainingCommand) -> float:
    """0 where the training cannot save by a signal, or was not told to."""
    given = rows(command.arguments)
    return max((saver.grace_s for saver in SAVERS if _on(saver.option, given, command.files)), default=0.0)


def _on(option: str, given: Mapping[str, tuple[str, ...]], files: Mapping[str, str]) -> bool:
    if option in given:
        return not (given[option] and given[option][0].lower() in NO)
    lines = (line.partition(":") for text in files.values() for line in text.splitlines())
    return any(name.strip() == option and value.strip().lower() not in ("", *NO) for name, _, value in lines)
