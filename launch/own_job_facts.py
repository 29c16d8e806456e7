"""What is known of a job of the user's own only where its files are: mistakes in its script, programs, and disk."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.facts import Facts, ScriptVerdict
from envcheck.core.lint.own_job import JobProgram, OwnJob
from envcheck.core.lint.script_model import Remark, SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.model import Status
from envcheck.job.definition import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.suitability import judge_requirements
from envcheck.scripts import source_file
from envcheck.scripts.jobs import own_job_reader
from installers.recipes.recipe import Recipe
from launch.rendering.option_schema import Versions

if TYPE_CHECKING:
    from envcheck.lint.linter import LintResult

SYNTAX = "shell.syntax"  # the rule that asks bash
OWN_RULES = "envcheck"  # origin of remarks that are not shellcheck's


def resolve_job(
    request: JobRequest,
    recipes: Sequence[Recipe],
    facts: Facts,
    installed: Versions | None = None,
    folder: str = "",
    is_here: bool = True,
) -> Job:
    """Return the job as `resolve` does, with the verdict on script and programs if the user's own environment has them.

    For doctor, plan and a training on this machine, which report that verdict; all others call `resolve`.
    `is_here`: the facts are those of this machine, which has the job's files.
    """
    job = resolve(request, recipes, facts, installed, folder)
    if job.own is not None:
        mine = replace(facts, vendors=tuple(v for v in facts.vendors if v.name == job.device))
        script = judge_script(job.own, mine, is_here)
    elif job.recipe.own_environment and request.into is None:
        script = judge_recipe_programs(job, is_here)
    else:
        return job
    wanted = replace(job.wanted, script=script)
    return replace(job, wanted=wanted, findings=judge_requirements(replace(facts, wanted=wanted)))


def judge_script(own: OwnJob, facts: Facts, is_here: bool = True) -> ScriptVerdict:
    """Return the linter's verdict on the file or the command of the job, and its programs that PATH does not have."""
    found = lint_own_job(own, facts, is_here)
    unread = next((r for r in found.remarks if r.severity is Status.UNKNOWN and r.rule == SYNTAX), None)
    return replace(
        _judge_programs(own.programs, is_here),
        name=found.source.name,
        is_file=own.is_file,
        mistakes=_describe_remarks(found, _prevents_start),
        warnings=_describe_remarks(found, lambda r: r.severity is Status.WARN and not _prevents_start(r)),
        unread=unread.seen if unread else NOTHING,
        unread_remedy=unread.remedy if unread else NOTHING,
        is_linted=True,
        no_training=own.no_training,
    )


def judge_recipe_programs(job: Job, is_here: bool = True) -> ScriptVerdict:
    """Return the programs that PATH does not have, of a recipe's job that runs in the user's own environment."""
    launcher = job.method.launcher
    is_named = bool(launcher) and not launcher[0].startswith("{")  # the interpreter is a placeholder
    programs = own_job_reader.read_command_job(launcher, os.environ).programs if is_named else ()
    return replace(_judge_programs(programs, is_here), name=job.recipe.name)


def _judge_programs(programs: Sequence[JobProgram], is_here: bool) -> ScriptVerdict:
    absent = [program for program in programs if is_here and not _has_program(program)]
    changed = tuple(_describe_unsure(program) for program in absent if not program.is_sure)
    elsewhere = tuple(
        _("cannot determine whether {program} is in PATH on another host", program=program.name)
        for program in ([] if is_here else programs)
    )
    absent_here = tuple(_describe_absent(program) for program in absent if program.is_sure)
    return ScriptVerdict("", False, absent=absent_here, unsure=(*changed, *elsewhere), is_linted=False)


def lint_own_job(own: OwnJob, facts: Facts, is_here: bool = True) -> LintResult:
    """Return the linter's result for the file of the job, or for its command."""
    from envcheck.lint.linter import lint_source  # the rules are many modules

    path = Path(own.source)
    named = own.is_file and path.is_file()
    source = source_file.read_source(own.source) if named else _make_command_source(own)
    folder = path.absolute().parent if named else Path.cwd()
    variables = own_job_reader.list_readable_variables(os.environ) if is_here else {}
    machine = TargetMachine(lambda: facts, live=is_here, folder=folder, variables=variables)
    return lint_source(source, machine, kind="" if named else "bash", others=False)


def _make_command_source(own: OwnJob) -> SourceFile:
    return SourceFile(own.source, (shlex.join(own.argv) + "\n").encode("utf-8", "replace"))


def _prevents_start(remark: Remark) -> bool:
    """Whether it is a failure: of a script that is to run, also what bash cannot parse in a template to fill in."""
    is_unparsed = remark.rule == SYNTAX and remark.origin == OWN_RULES and remark.severity is Status.WARN
    return remark.severity is Status.FAIL or is_unparsed


def _describe_remarks(found: LintResult, select: Callable[[Remark], bool]) -> tuple[Message, ...]:
    return tuple(_describe_remark(found.source, remark) for remark in found.remarks if select(remark))


def _describe_remark(source: SourceFile, remark: Remark) -> Message:
    place = f"{source.name}:{source.find_position(remark.start)[0]}"
    return _(
        "{place}: {seen} ({rule}). {remedy}", place=place, seen=remark.seen, rule=remark.rule, remedy=remark.remedy
    )


def _has_program(program: JobProgram) -> bool:
    if "/" not in program.name:
        return shutil.which(program.name, path=program.path) is not None
    path = Path(program.folder, program.name).expanduser()
    return path.is_file() and os.access(path, os.X_OK)


def _describe_absent(program: JobProgram) -> Message:
    seen = (
        _("{program} is missing or not executable", program=program.name)
        if "/" in program.name
        else _("{program} is not in PATH", program=program.name)
    )
    return _("{place}: {seen}", place=program.where, seen=seen) if program.where else seen


def _describe_unsure(program: JobProgram) -> Message:
    place, name = program.where, program.name
    return _("{place}: cannot determine whether the script puts {program} into PATH", place=place, program=name)


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
