"""The programs that a job needs in PATH: that of its command, and those of the trainings that its script starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from envcheck.core.lint.own_job import JobProgram
from envcheck.core.lint.script_model import UNKNOWN, ShellCommand, ShellScript, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import WRAPPERS, program_name, strip_wrappers
from envcheck.scripts.jobs.job_options import JobFiles

# Commands that put an environment's programs into PATH.
ACTIVATORS = frozenset(["source", ".", "conda", "mamba", "micromamba", "module", "ml", "workon", "pyenv", "spack"])
SHELL_ITSELF = frozenset(["exec", "time", "command"])  # are no programs
OTHER_PATH = "sudo"  # has a PATH of its own
_CALLERS_PATH = re.compile(r"\$(?:PATH\b|\{PATH[}:])")


def list_programs(
    argv: Sequence[str], jobs: Iterable[TrainingJob], files: JobFiles, outside: Mapping[str, str]
) -> tuple[JobProgram, ...]:
    """Return the programs of a command and of the trainings that its script starts; `outside` are the user's variables.

    Left out are programs of other hosts and of containers, the script's functions, and names that are not known.
    """
    path = outside.get("PATH", os.defpath)
    found = [JobProgram(argv[0], path=path)] if argv else []
    for job in jobs:
        if not job.command.elsewhere:
            found += _list_job_programs(job, files, path)
    first = {(program.name, program.path, program.folder): program for program in reversed(found)}
    return tuple(reversed(first.values()))


def _list_job_programs(job: TrainingJob, files: JobFiles, path: str) -> Iterator[JobProgram]:
    """The first word of the job's command, such as nohup, and the program that it starts in the end."""
    command = job.command
    is_sure = not command.branch and UNKNOWN not in command.cwd and not _hides_path(job.script, command)
    searched = _fill_path(command.environment["PATH"], path) if "PATH" in command.environment else path
    for word in dict.fromkeys((*command.words[:1], *strip_wrappers(command.words)[:1])):
        if word.is_known and word.text and word.text not in job.script.functions | SHELL_ITSELF:
            yield JobProgram(word.text, files.locate(word.start), searched, command.cwd, is_sure)


def _fill_path(word: ShellWord, path: str) -> str:
    """PATH as a script sets it; the user's own for what is unknown of it."""
    return word.text.replace(UNKNOWN, path)


def _hides_path(script: ShellScript, command: ShellCommand) -> bool:
    """Whether the script changes PATH in a way that cannot be read."""
    assigned = (assign.word for assign in script.assigns if assign.name == "PATH")
    return (
        script.opaque
        or command.login
        or any(program_name(each) in ACTIVATORS for each in script.commands)
        or any(word.text == OTHER_PATH for word in command.words[: len(WRAPPERS)])
        or not all(map(_is_path_known, assigned))
    )


def _is_path_known(word: ShellWord) -> bool:
    """Whether the only unknown parts are $PATH."""
    parts = word.text.split(":")
    unknown = [part for part in parts if UNKNOWN in part]
    return all(part == UNKNOWN for part in unknown) and len(unknown) <= len(_CALLERS_PATH.findall(word.raw))
