"""The configuration file next to a script that its training uses: the parallel degrees in it.

Only its values are used, at the place of the word that names it: the file is linted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.script_model import ConfigBlock, ShellWord, SourceBlock
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.scripts import config_files
from envcheck.scripts.parse_options import read_config_options

KITS = ("llamafactory", "paddle", "swift")


def attach_companion_config(
    job: TrainingJob, machine: TargetMachine, written: Sequence[ConfigBlock] = ()
) -> TrainingJob:
    """Return the job with the file's values; unchanged if it has its own options, or the file is not available."""
    if job.launcher.name == "accelerate":
        return _attach_accelerate_config(job, machine, written)
    if job.options or job.config is not None or not job.is_training:
        return job
    for word in job.command.words:
        if word.text.endswith((".yaml", ".yml")) and (config := read_companion_config(word, job.command.cwd, machine)):
            return replace(job, lent=_place_options(config, word), lender=word) if config.family in KITS else job
    return job


def _attach_accelerate_config(job: TrainingJob, machine: TargetMachine, written: Sequence[ConfigBlock]) -> TrainingJob:
    """Insert the values of --config_file before the command line, which overrides them; `written`: by the script."""
    given = job.find_launcher_option("config_file")
    word = given.values[0] if given is not None and given.values else None
    name = word.text.rpartition("/")[2] if word is not None else ""
    config = next((each for each in written if name and each.file.rpartition("/")[2] == name), None)
    if config is None and word is not None:
        config = read_companion_config(word, job.command.cwd, machine)
    if config is None or word is None or config.family != "accelerate":
        return job
    return replace(job, own=(*_place_options(config, word), *job.own))


def read_companion_config(word: ShellWord, cwd: str, machine: TargetMachine) -> ConfigBlock | None:
    """Return the configuration at a path relative to the script, or an absolute one on the local machine."""
    path = machine.find_file(word.text, cwd)
    try:
        if path is None or path.stat().st_size > config_files.LIMIT:
            return None
        raw = path.read_bytes()
    except OSError:
        return None
    config = _parse_companion_config(raw, path.name)
    return None if config.error else config


@lru_cache(8)  # cached: a sweep starts one file many times
def _parse_companion_config(raw: bytes, name: str) -> ConfigBlock:
    return config_files.parse_config(SourceBlock("yaml", raw, ((0, 0),)), name)


def _place_options(config: ConfigBlock, word: ShellWord) -> tuple[GivenOption, ...]:
    return tuple(
        GivenOption(
            each.name,
            tuple(ShellWord(v.text, word.start, word.end) for v in each.values),
            word.start,
            word.end,
            key=True,
        )
        for each in read_config_options(config)
    )
