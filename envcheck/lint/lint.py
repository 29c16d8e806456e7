"""From a file to what is remarked on it: read, walk, judge; waivers and doubles are taken out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Block, Remark, Source
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.job.job import Job
from envcheck.lint.context import shells
from envcheck.lint.context.read_context import read_context
from envcheck.lint.script_job import describe_recipe, resolve_script_job
from envcheck.lint.table import RULES

_WAIVER = re.compile(r"#\s*envcheck:\s*ignore[ =]+([\w., -]+)")
GRAMMAR = "tree_sitter"  # compiled, so that envcheck.pyz does not have it
MOST = 500  # remarks that are told
MOST_OF_RULE = 100  # a file that breaks one more often is no launch script


@dataclass(frozen=True)
class Result:
    """`read`: how many scripts and configurations there were, `known` of them what a known program reads; `waived` the
    remarks that the file waives; `beside` the configurations that it starts trainings with, which have their own lint;
    `job` the recipe's job that envcheck wrote the script from.
    """

    source: Source
    remarks: tuple[Remark, ...]
    waived: tuple[Remark, ...] = ()
    read: int = 0
    device: str = ""
    shellcheck: bool = False
    known: int = 0
    beside: tuple[str, ...] = ()
    job: Job | None = None


def lint(
    file: Source, machine: TargetMachine | None = None, device: str = "auto", kind: str = "", others: bool = True
) -> Result:
    """`others`: bash and shellcheck are asked, too, where they are installed.

    Without the shell's grammar a script is UNKNOWN.
    """
    try:
        made = read_context(file, machine or TargetMachine(), device, kind)
    except ModuleNotFoundError as err:
        if not (err.name or "").startswith(GRAMMAR):
            raise
        seen = "tree-sitter is missing: this Python cannot read shell"
        remark = Remark("shell.syntax", Status.UNKNOWN, seen, "pip install tree-sitter tree-sitter-bash", 0, 1)
        return Result(file, (remark,), read=1, known=1)
    job = resolve_script_job(made)
    made = replace(made, recipe=describe_recipe(job)) if job else made
    found = list(_judged(made))
    if others:
        for script in made.scripts:
            if script.block.script and script.block.kind == "bash":
                found += [remark for remark in shells.shellcheck(script.block) if not _told(file, remark, found)]
    found = sorted(_once(found), key=lambda remark: (remark.start, -remark.severity, remark.rule))[:MOST]
    says = sum(map(_says, [*(each.block for each in made.scripts), *(each.block for each in made.configs)]))
    known = len(made.scripts) + sum(bool(config.family) for config in made.configs)
    images = int(bool(made.described))  # a Dockerfile that runs nothing has no script
    waivers = _waivers(made)
    waived = [remark for remark in found if _waived(file, remark, waivers)]
    return Result(
        file,
        tuple(remark for remark in found if remark not in waived),
        tuple(waived),
        says or images,
        made.device,
        others and shells.program() is not None,
        known or images,
        tuple(dict.fromkeys(each.lender.text for each in made.jobs if each.lender is not None)),
        job,
    )


def _says(block: Block) -> bool:
    """More stands in it than blanks and comments."""
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in block.raw.splitlines())


def _judged(context: LintContext) -> Iterator[Remark]:
    loose = [_span(script.block) for script in context.scripts if not script.block.exact]
    loose += [span for script in context.scripts for span in script.loose]
    for rule in RULES:
        for remark in itertools.islice(rule.judge(context), MOST_OF_RULE):
            kept = None if any(start <= remark.start <= end for start, end in loose) else remark.fix
            yield replace(remark, rule=rule.name, fix=kept)


def _span(block: Block) -> tuple[int, int]:
    """From where to where it stands in the file."""
    return min(at for _, at in block.lines), block.at(len(block.raw))


def _once(remarks: Iterable[Remark]) -> list[Remark]:
    """What two calls of a function, or two rules, say alike at one place is said once."""
    seen: dict[tuple[str, int, str], Remark] = {}
    for remark in remarks:
        seen.setdefault((remark.rule, remark.start, remark.seen), remark)
    return list(seen.values())


def _told(file: Source, remark: Remark, ours: Sequence[Remark]) -> bool:
    """A rule of ours says it: at that line, or, for what we follow and shellcheck cannot, by saying nothing."""
    code = int(remark.rule.rpartition("SC")[2])
    if code in shells.FOLLOWED:
        return True
    line = file.place(remark.start)[0]
    names, reach = {shells.OURS.get(code)}, 0
    if code == 2215:  # an option as a command: the fault is the line above
        names, reach = {"shell.orphan_option", "shell.backslash_blank", "shell.cut_off"}, 2
    if code == 1017:  # once for a file, not for each of its lines
        names, reach = {"shell.crlf"}, len(file.starts)
    return any(
        each.rule in names and file.place(each.start)[0] <= line <= file.place(max(each.start, each.end - 1))[0] + reach
        for each in ours
    )


def _waivers(context: LintContext) -> dict[int, set[str]]:
    """Line → the rules that it waives: a comment behind the command, or on the line above it."""
    found: dict[int, set[str]] = {}
    for number in range(1, len(context.source.starts) + 1):
        match = _WAIVER.search(context.source.line(number))
        if match:
            names = set(re.findall(r"[a-z_]+\.[\w]+|[a-z]+(?=[, ]|$)", match[1]))
            alone = context.source.line(number).lstrip().startswith("#")
            found.setdefault(number + alone, set()).update(names)
    return found


def _waived(file: Source, remark: Remark, waivers: dict[int, set[str]]) -> bool:
    names = waivers.get(file.place(remark.start)[0], set())
    return remark.rule in names or remark.rule.partition(".")[0] in names


def exit_code(result: Result, strict: bool) -> int:
    """0 clean, 1 something fails, 3 something cannot be told, warns where that counts, or there was nothing to read, or
    nothing that a known program reads: nobody judged it.
    """
    worst = [remark.severity for remark in result.remarks]
    if Status.FAIL in worst:
        return 1
    judged = result.read and result.known
    return 3 if not judged or Status.UNKNOWN in worst or (strict and Status.WARN in worst) else 0
