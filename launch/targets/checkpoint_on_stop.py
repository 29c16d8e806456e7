"""Trainings that save a checkpoint on SIGTERM, and how long they may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.job.command import TrainingCommand
from launch.rendering.argument_rows import parse_rows

FALSE_WORDS = ("false", "0", "no", "off")


@dataclass(frozen=True)
class SaveOption:
    """A training option with which a worker saves a checkpoint on SIGTERM and exits; `grace_s` is the time limit."""

    option: str
    grace_s: float
    source: str


SAVE_OPTIONS = (
    SaveOption(
        "enable_jit_checkpoint",
        600.0,  # envcheck's choice: the 4.2 TB of a 300B job take 9 minutes at 8 GB/s
        "transformers 5, TrainingArguments: saved at the next step, three seconds after the signal",
    ),
)


def save_grace_s(command: TrainingCommand) -> float:
    """Return the time limit in seconds for saving a checkpoint; 0 if the training does not save on SIGTERM."""
    given = parse_rows(command.arguments)
    return max(
        (saver.grace_s for saver in SAVE_OPTIONS if _is_enabled(saver.option, given, command.files)), default=0.0
    )


def _is_enabled(option: str, given: Mapping[str, tuple[str, ...]], files: Mapping[str, str]) -> bool:
    if option in given:
        return not (given[option] and given[option][0].lower() in FALSE_WORDS)
    lines = (line.partition(":") for text in files.values() for line in text.splitlines())
    return any(name.strip() == option and value.strip().lower() not in ("", *FALSE_WORDS) for name, _, value in lines)
