"""What the gates need to know of a job of the user's own: the linter's result, and whether its program is there."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.facts import Facts
from envcheck.core.lint.own_job import OwnJob
from envcheck.core.lint.script_model import SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.job.command import TrainingCommand
from envcheck.scripts import source_file

if TYPE_CHECKING:
    from envcheck.lint.linter import LintResult


def lint_own_job(own: OwnJob, facts: Facts) -> LintResult:
    """Return the linter's result for the file of the job, or for its command."""
    from envcheck.lint.linter import lint_source  # the rules are many modules

    path = Path(own.source)
    named = own.is_file and path.is_file()
    source = source_file.read_source(own.source) if named else _make_command_source(own)
    folder = path.absolute().parent if named else Path.cwd()
    machine = TargetMachine(lambda: facts, live=True, folder=folder)
    return lint_source(source, machine, kind="" if named else "bash", others=False)


def _make_command_source(own: OwnJob) -> SourceFile:
    return SourceFile(own.source, (shlex.join(own.argv) + "\n").encode("utf-8", "replace"))


def find_absent_program(command: TrainingCommand, environment: Mapping[str, str]) -> str:
    """Return the program of the command if PATH does not have it; "" if it is there."""
    program = command.argv[0]
    found = shutil.which(program, path=environment.get("PATH"))
    return "" if found else program


def measure_output_disk(own: OwnJob) -> int | None:
    """Return the free bytes where the job writes its checkpoints; None if its output folder is unknown."""
    if not own.output:
        return None
    path = Path(own.output).expanduser().absolute()
    there = next((each for each in (path, *path.parents) if each.exists()), None)
    try:
        return shutil.disk_usage(there).free if there else None
    except OSError:
        return None


def make_output_folder(place: Path, own: OwnJob | None) -> None:
    """Make the output folder of a run; of an own job it is a link to where the job writes."""
    if own is not None and own.output:
        place.symlink_to(Path(own.output).expanduser().absolute())
    else:
        place.mkdir()
