"""From a file to its remarks: parse, interpret, evaluate; waived and duplicate remarks are removed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.reading import Reading
from envcheck.core.lint.script_model import UNKNOWN, Remark, SourceBlock, SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Status
from envcheck.job.definition import Job
from envcheck.lint.context import shell_checkers
from envcheck.lint.readings import is_uncertain, list_readings
from envcheck.lint.rule_table import RULES
from envcheck.lint.script_job import describe_recipe, resolve_script_job
from envcheck.scripts.companion_config import is_program_config, list_config_words
from envcheck.scripts.jobs.read_context import read_context

_WAIVER = re.compile(r"#\s*envcheck:\s*ignore[ =]+([\w., -]+)")
GRAMMAR = "tree_sitter"  # compiled, so envcheck.pyz does not contain it
MOST = 500  # maximum number of remarks
MOST_OF_RULE = 100  # a file with more remarks of one rule is not a launch script


@dataclass(frozen=True)
class LintResult:
    """`read`: number of scripts and configurations, `known` of them belong to a known program.

    `waived`: remarks that the file waives; `used_files`: paths of configurations that it uses, which are linted
    separately; `readers`: what reads them; `job`: the recipe's job from which envcheck generated the script;
    `readings`: what its parts were read as; `too_long`: a script has more bytes than shellcheck gets.
    """

    source: SourceFile
    remarks: tuple[Remark, ...]
    waived: tuple[Remark, ...] = ()
    read: int = 0
    device: str = ""
    shellcheck: bool = False
    known: int = 0
    used_files: tuple[str, ...] = ()
    readers: Mapping[Path, TrainingJob] = field(default_factory=dict)
    job: Job | None = None
    jobs_left_out: int = 0
    readings: tuple[Reading, ...] = ()
    too_long: bool = False


def lint_source(
    file: SourceFile,
    machine: TargetMachine | None = None,
    device: str = "auto",
    kind: str = "",
    others: bool = True,
    reader: TrainingJob | None = None,
) -> LintResult:
    """Lint one source; `others`: run bash and shellcheck too, if installed; `reader`: a job that reads this file.

    Without the shell grammar, a script is UNKNOWN.
    """
    try:
        made = read_context(file, machine or TargetMachine(), device, kind, reader)
    except ModuleNotFoundError as err:
        if not (err.name or "").startswith(GRAMMAR):
            raise
        seen = _("tree-sitter is not installed, so shell scripts cannot be parsed")
        remark = Remark(
            "shell.syntax", Status.UNKNOWN, seen, verbatim("pip install tree-sitter tree-sitter-bash"), 0, 1
        )
        return LintResult(file, (remark,), read=1, known=1)
    job = resolve_script_job(made)
    made = replace(made, recipe=describe_recipe(job)) if job else made
    found = list(_apply_rules(made))
    if others:
        for script in made.scripts:
            # shellcheck needs exponential time for deeply nested brackets.
            if script.block.is_script and script.block.kind == "bash" and not script.cut:
                found += [
                    remark
                    for remark in shell_checkers.run_shellcheck(script.block)
                    if not _is_covered_by_rule(file, remark, found)
                ]
    found = sorted(_drop_duplicates(found), key=lambda remark: (remark.start, -remark.severity, remark.rule))[:MOST]
    says = sum(map(_has_content, [*(each.block for each in made.scripts), *(each.block for each in made.configs)]))
    known = len(made.scripts) + sum(bool(config.family) for config in made.configs)
    readers = _find_readers(made)
    images = int(bool(made.described))  # a Dockerfile without RUN has no script
    waivers = _read_waivers(made)
    waived = [remark for remark in found if _is_waived(file, remark, waivers)]
    return LintResult(
        file,
        tuple(remark for remark in found if remark not in waived),
        tuple(waived),
        says or images,
        made.device,
        others and shell_checkers.find_shellcheck() is not None,
        known or images,
        tuple(map(_shorten_path, readers)),
        {path: reader for path, reader in readers.items() if reader is not None},
        job,
        made.jobs_left_out,
        list_readings(made),
        any(script.block.is_script and len(script.block.raw) > shell_checkers.LARGE for script in made.scripts),
    )


def _find_readers(context: LintContext) -> dict[Path, TrainingJob | None]:
    """Return the existing files that jobs name, each with the first job of which it is the configuration."""
    words = [(word, job) for job in context.jobs for word in list_config_words(job)]
    words += [(job.lender, job) for job in context.jobs if job.lender is not None]
    found: dict[Path, TrainingJob | None] = {}
    for word, job in words:
        path = context.machine.find_file(word.text, job.command.cwd)
        if path is not None:
            found.setdefault(path, job if is_program_config(job, word) else None)
    return found


def _shorten_path(path: Path) -> str:
    """The path as one can type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _has_content(block: SourceBlock) -> bool:
    """Whether it contains more than blanks and comments."""
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in block.raw.splitlines())


def _apply_rules(context: LintContext) -> Iterator[Remark]:
    loose = [_find_block_span(script.block) for script in context.scripts if not script.block.exact]
    loose += [span for script in context.scripts for span in script.loose]
    guessed = [(job.program, job.command) for job in context.jobs if job.program and is_uncertain(context, job)]
    spans = [(program.start, command.end, program.text) for program, command in guessed]
    for rule in RULES:
        for remark in itertools.islice(rule.judge(context), MOST_OF_RULE):
            kept = None if any(start <= remark.start <= end for start, end in loose) else remark.fix
            named = replace(remark, rule=rule.name, fix=kept)
            guesses = rule.area in _BY_PROGRAM and rule.name not in _BY_VERSION
            yield _withhold_failure(named, spans) if guesses else named


_BY_PROGRAM = ("options", "training")  # areas whose findings depend on how the program reads its options
_BY_VERSION = ("options.other_version",)  # follows from the file's path and the installed version


def _withhold_failure(remark: Remark, spans: Sequence[tuple[int, int, str]]) -> Remark:
    """The remark; UNKNOWN instead of FAIL if nothing says how the program reads the option."""
    found = next((name for start, end, name in spans if start <= remark.start < end), None)
    if found is None or remark.severity is not Status.FAIL:
        return remark
    seen = _(
        "{problem}, if {program}, which envcheck does not know, reads its options as other trainers do",
        problem=remark.seen,
        program=found.rpartition("/")[2] if UNKNOWN not in found else _("the program"),
    )
    return replace(remark, severity=Status.UNKNOWN, seen=seen, fix=None)


def _find_block_span(block: SourceBlock) -> tuple[int, int]:
    """Start and end of the block in the file."""
    return min(at for _unused, at in block.lines), block.map_to_file(len(block.raw))


def _drop_duplicates(remarks: Iterable[Remark]) -> list[Remark]:
    """Equal remarks of two function calls, or two rules, in one place are reported once."""
    seen: dict[tuple[str, int, str], Remark] = {}
    for remark in remarks:
        seen.setdefault((remark.rule, remark.start, remark.seen), remark)
    return list(seen.values())


def _is_covered_by_rule(file: SourceFile, remark: Remark, ours: Sequence[Remark]) -> bool:
    """Whether our rules report it: on that line, or by silence, if they follow what shellcheck cannot."""
    code = int(remark.rule.rpartition("SC")[2])
    if code in shell_checkers.FOLLOWED:
        return True
    line = file.find_position(remark.start)[0]
    names, reach = {shell_checkers.OURS.get(code)}, 0
    if code == 2215:  # an option as a command: the mistake is on the line above
        names, reach = {"shell.orphan_option", "shell.backslash_blank", "shell.cut_off"}, 2
    if code == 1017:  # once for a file, not for each of its lines
        names, reach = {"shell.crlf"}, len(file.line_starts)
    return any(
        each.rule in names
        and file.find_position(each.start)[0] <= line <= file.find_position(max(each.start, each.end - 1))[0] + reach
        for each in ours
    )


def _read_waivers(context: LintContext) -> dict[int, set[str]]:
    """Line → rules that it waives: a comment after the command, or on the line above."""
    found: dict[int, set[str]] = {}
    for number in range(1, len(context.source.line_starts) + 1 if b"envcheck:" in context.source.raw else 0):
        match = _WAIVER.search(context.source.read_line(number))
        if match:
            names = set(re.findall(r"(?<![a-z_])[a-z_]+\.\w+|(?<![a-z])[a-z]+(?=[, ]|$)", match[1]))
            alone = context.source.read_line(number).lstrip().startswith("#")
            found.setdefault(number + alone, set()).update(names)
    return found


def _is_waived(file: SourceFile, remark: Remark, waivers: dict[int, set[str]]) -> bool:
    names = waivers.get(file.find_position(remark.start)[0], set())
    return remark.rule in names or remark.rule.partition(".")[0] in names


def exit_code(result: LintResult, strict: bool) -> int:
    """Return 0 without findings, 1 with failures, 3 for unknown results, or if nothing was checked.

    With --strict, 3 for warnings as well, and for what is unknown because this is not the script's host.
    """
    worst = [remark.severity for remark in result.remarks if strict or not remark.of_host]
    if Status.FAIL in worst:
        return 1
    judged = result.read and result.known and not result.jobs_left_out
    return 3 if not judged or Status.UNKNOWN in worst or (strict and Status.WARN in worst) else 0
