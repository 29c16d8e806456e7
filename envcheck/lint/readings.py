"""What each part of a file was read as, and whether its program is certain enough for a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.reading import Reading
from envcheck.core.lint.script_model import ConfigBlock, ShellCommand, ShellScript
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, fill
from envcheck.lint.context.name_tables import find_dialect
from envcheck.lint.rules.training.option_schemas import (
    FAMILY_PROGRAMS,
    ProgramOptions,
    find_config_options,
    find_program_options,
)
from envcheck.scripts.known_programs import (
    OPTIONS,
    OVERRIDES,
    KnownProgram,
    find_config_program,
    find_started_program,
)

_OVERRIDE = re.compile(r"[+~]{0,2}[\w.@/]+=")


def list_readings(context: LintContext) -> tuple[Reading, ...]:
    """Return what the scripts and configurations were read as, equal ones once, in the order of the file."""
    started = {id(job.config) for job in context.jobs if job.config is not None and job.command.words}
    found = [reading for script in context.scripts for reading in _read_script(context, script)]
    found += [_read_config(context, config) for config in context.configs if id(config) not in started]
    if context.described and not context.configs:
        found.insert(0, Reading("dockerfile"))
    named = {each.kind for each in found if each.program}
    kept = list(dict.fromkeys(each for each in found if each.program or each.kind not in named))
    names = dict.fromkeys(word.text for word in context.launching)
    sourced = tuple(_("the training in {file}, which it sources", file=name) for name in names)
    at = next((n for n, each in enumerate(kept) if each.kind == "bash"), None)
    if sourced and at is not None:
        kept[at] = replace(kept[at], unchecked=(*kept[at].unchecked, *sourced))
    return tuple(kept)


def _read_script(context: LintContext, script: ShellScript) -> Iterator[Reading]:
    """The programs that a script starts; the script alone, if it starts no training."""
    jobs = {id(job.command): job for job in context.jobs if job.script is script}
    if script.commands or script.block.is_script:
        yield Reading(script.block.kind)
    for command in script.commands:
        job = jobs.get(id(command))
        row = find_started_program(command.words, command.environment)
        if row is not None:
            yield _describe_started(row, command, find_program_options(context, job) if job else None)
        elif job is not None and job.program is not None:
            yield _describe_unknown_program(job, find_program_options(context, job))


def _describe_started(row: KnownProgram, command: ShellCommand, kit: ProgramOptions | None) -> Reading:
    overridden = any(_OVERRIDE.match(word.text) for word in command.words)
    parts = [part for part in row.unchecked if part != OVERRIDES or overridden]
    if kit is None and not parts:
        parts = [OPTIONS]
    return Reading("bash", row.name, _describe_versions(kit), row.parser, _fill_parts(parts, row.name))


def _describe_unknown_program(job: TrainingJob, kit: ProgramOptions | None) -> Reading:
    name = job.program.text.rpartition("/")[2] if job.program is not None and job.program.is_known else "?"
    if kit is not None:
        return Reading("bash", kit.known[0].package, _describe_versions(kit), "")
    return Reading("bash", name, "", find_dialect(job), _fill_parts([OPTIONS], name))


def _read_config(context: LintContext, config: ConfigBlock) -> Reading:
    job = None if config.file else context.reader
    row = find_started_program(job.command.words, job.command.environment) if job is not None else None
    row = row or find_config_program(config)
    if row is None:
        return Reading(config.block.kind, "", "", "", (_("keys, because no known program reads them"),))
    kit = find_config_options(context, config)
    parts = [OPTIONS] if kit is None and config.family in FAMILY_PROGRAMS else row.unchecked_keys
    return Reading(config.block.kind, row.name, _describe_versions(kit), row.parser, _fill_parts(parts, row.name))


def _describe_versions(kit: ProgramOptions | None) -> str:
    if kit is None:
        return ""
    return kit.version or ", ".join(dict.fromkeys(each.versions for each in kit.known))


def _fill_parts(parts: Iterable[str], name: str) -> tuple[Message, ...]:
    return tuple(fill(part, program=name) for part in parts)


def is_uncertain(context: LintContext, job: TrainingJob) -> bool:
    """Return whether nothing says how the program of a job reads its options: a failure would be a guess."""
    if job.config is not None or job.lent or job.program is None or find_program_options(context, job) is not None:
        return False
    return find_started_program(job.command.words, job.command.environment) is None and not find_dialect(job)
