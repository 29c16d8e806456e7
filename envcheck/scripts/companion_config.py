"""The configuration file next to a script that its training uses: the parallel degrees in it.

Only its values are used, at the place of the word that names it: the file is linted separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from envcheck.core.errors import describe_os_error
from envcheck.core.lint.given_options import GivenOption, find_last_option
from envcheck.core.lint.script_model import CONFIG_SUFFIXES, UNKNOWN, ConfigBlock, ShellWord, SourceBlock, SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import NOTHING, Message, _
from envcheck.scripts import config_files
from envcheck.scripts.known_programs import find_started_program
from envcheck.scripts.parse_options import read_config_options

FILE_OPTIONS = (*config_files.OPTIONS_OF_PROGRAM, "deepspeed", "deepspeed_config")
_BARE = re.compile(r"[\w-]+|-m|[\w.]+\.cli")  # the verbs of a command: train, sft
KITS = ("llamafactory", "paddle", "paddlenlp", "swift")

FileFinder = Callable[[str, str], "Path | None"]  # of a path, in a folder


@dataclass(frozen=True)
class NamedConfig:
    """A file with options that cannot be read: the word that names it, and what is wrong."""

    word: ShellWord
    seen: Message
    is_missing: bool = False


def attach_companion_config(
    job: TrainingJob, machine: TargetMachine, written: Sequence[ConfigBlock] = ()
) -> TrainingJob:
    """Return the job with the file's values; unchanged if it has its own options, or the file is not available."""
    if job.launcher.name == "accelerate":
        return _attach_accelerate_config(job, machine, written)
    if job.options or job.config is not None or not job.is_training:
        return job
    for word in job.command.words:
        if word.text.endswith(CONFIG_SUFFIXES) and (config := read_companion_config(word, job.command.cwd, machine)):
            return replace(job, lent=_place_options(config, word), lender=word) if config.family in KITS else job
    return job


def list_config_words(job: TrainingJob) -> Iterator[ShellWord]:
    """Yield the words that name a file with options of the job: in its command, or in another such file."""
    after = iter(job.command.words)
    next((word for word in after if word is job.at), None)
    first = next((word for word in after if not _BARE.fullmatch(word.text)), None)
    if first is not None and job.program is None and first.text.endswith(CONFIG_SUFFIXES):
        yield first
    for option in (*job.own, *job.options, *job.lent):
        if (
            option.python_name in FILE_OPTIONS
            and len(option.values) == 1
            and option.values[0].text.endswith(CONFIG_SUFFIXES)
        ):
            yield option.values[0]


def is_program_config(job: TrainingJob, word: ShellWord) -> bool:
    """Return whether a file has the options of a known program: not those of DeepSpeed or of a launcher."""
    if find_started_program(job.command.words, job.command.environment) is None:
        return False
    named = [option for option in (*job.own, *job.options, *job.lent) if word in option.values]
    return not named or (named[0] in job.options and named[0].python_name in config_files.OPTIONS_OF_PROGRAM)


def is_word_of_command(job: TrainingJob, word: ShellWord) -> bool:
    """Return whether the value of an option is in the command: values of a file have the place of the file's name."""
    return any(
        each.start <= word.start and word.end <= each.end and each.text.endswith(word.text)
        for each in job.command.words
    )


def is_start_folder_known(job: TrainingJob, word: ShellWord) -> bool:
    """Return whether a file is named by the command, or by a configuration that the command finds from its folder."""
    lender = next((each for each in job.command.words if each.start <= word.start and word.end <= each.end), None)
    return lender is not None and (
        is_word_of_command(job, word) or not lender.text.rpartition("=")[2].startswith(("/", "~"))
    )


def list_named_configs(job: TrainingJob, find_file: FileFinder) -> Iterator[ShellWord]:
    """Yield the words of list_config_words, then the files that one of them names, at the place of its own name."""
    words = list(list_config_words(job))
    yield from words
    given = {word.text for word in words}
    for word in words:
        config = _read_config_file(find_file(word.text, job.command.cwd)) if is_word_of_command(job, word) else None
        for option in _place_options(config, word) if config is not None else ():
            if (
                option.python_name in FILE_OPTIONS
                and len(option.values) == 1
                and option.values[0].text.endswith(CONFIG_SUFFIXES)
                and option.values[0].text not in given
                and find_last_option(job.options, option.python_name) is None
            ):
                yield option.values[0]


def find_broken_configs(job: TrainingJob, written: Sequence[ConfigBlock], find_file: FileFinder) -> list[NamedConfig]:
    """Return the files with options that cannot be parsed, and those that are not there; `written`: by the script."""
    names = {config.file.rpartition("/")[2] for config in written}
    found = []
    for word in () if job.command.elsewhere else list_named_configs(job, find_file):
        if not word.is_known or not word.text or word.text.rpartition("/")[2] in names:
            continue
        path = find_file(word.text, job.command.cwd)
        if path is None:
            if UNKNOWN not in job.command.cwd:
                found.append(NamedConfig(word, _("{file} not found", file=word.text), is_missing=True))
        elif seen := _describe_error(path, word.text):
            found.append(NamedConfig(word, seen))
    return found


def _describe_error(path: Path, name: str) -> Message:
    try:
        raw = path.read_bytes() if path.stat().st_size <= config_files.LIMIT else b""
    except OSError as err:
        return _("{file}: {reason}", file=name, reason=describe_os_error(err))
    config = _parse_companion_config(raw, path.name)
    if not config.error:
        return NOTHING
    line = SourceFile(name, raw).find_position(config.error_at[0])[0]
    seen = _("cannot parse the configuration: {error}", error=config.error)
    return _("{place}: {seen}", place=f"{name}:{line}", seen=seen)


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
    return _read_config_file(machine.find_file(word.text, cwd))


def _read_config_file(path: Path | None) -> ConfigBlock | None:
    """Return the configuration in a file; None if it is missing, too large, unreadable or cannot be parsed."""
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
    kind = "json" if name.endswith(".json") else "yaml"
    return config_files.parse_config(SourceBlock(kind, raw, ((0, 0),)), name)


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
