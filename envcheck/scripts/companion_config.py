"""The configuration that a script starts a training with, where it lies beside the script: what it says of degrees.

Only its figures are taken along, at the place of the word that names it: the file has its own lint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.model import UNKNOWN, Block, Config, Word
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.scripts import configs
from envcheck.scripts.parse_options import options_of_config

KITS = ("llamafactory", "paddle", "swift")


def lend(job: TrainingJob, machine: TargetMachine, written: Sequence[Config] = ()) -> TrainingJob:
    """With what its file says; the job as it was where it has options of its own, or the file is not to be had."""
    if job.launcher.name == "accelerate":
        return _of_accelerate(job, machine, written)
    if job.options or job.config is not None or not job.trains:
        return job
    for word in job.command.words:
        if word.text.endswith((".yaml", ".yml")) and (config := read(word, job.command.cwd, machine)):
            return replace(job, lent=_placed(config, word), lender=word) if config.family in KITS else job
    return job


def _of_accelerate(job: TrainingJob, machine: TargetMachine, written: Sequence[Config]) -> TrainingJob:
    """What its --config_file says stands before what the command line says, which wins; `written`: by the script."""
    given = job.says("config_file")
    word = given.values[0] if given is not None and given.values else None
    name = word.text.rpartition("/")[2] if word is not None else ""
    config = next((each for each in written if name and each.file.rpartition("/")[2] == name), None)
    if config is None and word is not None:
        config = read(word, job.command.cwd, machine)
    if config is None or word is None or config.family != "accelerate":
        return job
    return replace(job, own=(*_placed(config, word), *job.own))


def read(word: Word, cwd: str, machine: TargetMachine) -> Config | None:
    """A relative path below the script's folder; an absolute one on the machine itself, where that is this one."""
    if machine.folder is None or not word.known or UNKNOWN in cwd or not word.text or "\0" in word.text + cwd:
        return None
    if (word.text.startswith("/") or cwd.startswith("/")) and not machine.live:
        return None
    path = Path(machine.folder, cwd, word.text)
    try:
        if not path.is_file() or path.stat().st_size > configs.LIMIT:
            return None
        raw = path.read_bytes()
    except OSError:
        return None
    config = _parsed(raw, path.name)
    return None if config.error else config


@lru_cache(8)  # a sweep starts one file many times
def _parsed(raw: bytes, name: str) -> Config:
    return configs.read(Block("yaml", raw, ((0, 0),)), name)


def _placed(config: Config, word: Word) -> tuple[GivenOption, ...]:
    return tuple(
        GivenOption(
            each.name, tuple(Word(v.text, word.start, word.end) for v in each.values), word.start, word.end, key=True
        )
        for each in options_of_config(config)
    )
