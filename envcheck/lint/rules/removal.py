"""Rules about rm: of empty variables, of root folders, of earlier results, or after a cd that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, find_similar_name, replace_span, warn
from envcheck.core.lint.script_model import UNKNOWN, Remark, ShellScript, ShellWord, VariableUse
from envcheck.core.lint.wrappers import program_name, strip_wrappers
from envcheck.core.messages import _
from envcheck.lint.rules.unused_variables import REMOVERS, is_never_set, is_own_name

_RISKY = ("/", "/*", "~", "~/", "/home", "/root", "/usr", "/etc", "/var", "/opt", "*")


def find_dangerous_removal(context: LintContext) -> Iterator[Remark]:
    """Find rm of what may be empty, of a root folder, or of the previous run's results."""
    for script, command in context.find_commands(*REMOVERS):
        words = strip_wrappers(command.words)
        flags = "".join(word.text for word in words[1:] if word.text.startswith("-"))
        for word in words[1:]:
            if word.text.startswith("-") and word.text != "-":
                continue
            uses = [use for use in command.uses if word.start <= use.start < word.end]
            strict = (
                "nounset" in command.shell
            )  # it stops at a variable without a value, which shell.unset_variable reports
            yield from _judge_removed_word(context, script, word, uses, "r" in flags or "R" in flags, strict)


def _judge_removed_word(
    context: LintContext, script: ShellScript, word: ShellWord, uses: list[VariableUse], deep: bool, strict: bool
) -> Iterator[Remark]:
    loose = [use for use in uses if not use.guarded and not use.bound and not strict]
    never = [use for use in loose if is_never_set(script, context, use.name)]
    if word.text in _RISKY and not word.quoted and deep and word.raw == word.text:
        yield fail(word, _("removes everything under {path}", path=word.text), _("Specify the directory to remove."))
    elif (
        deep
        and any(not use.guarded for use in uses)
        and word.is_known
        and word.text in _RISKY
        and not ("*" in word.text and word.quoted)
    ):
        seen = _("{name} is empty here: this removes {path}", name=uses[0].name, path=word.text)
        yield fail(
            word,
            seen,
            _("Write {expansion}: the script then stops if the variable is empty.", expansion=f"${{{uses[0].name}:?}}"),
        )
    elif never and is_own_name(never[0].name):
        use = never[0]
        meant = next(
            (
                n
                for n in sorted(script.names)
                if n.endswith(f"_{use.name}") or find_similar_name(n, frozenset({use.name}), 0.8)
            ),
            "",
        )
        rest = word.text.replace(UNKNOWN, "")
        effect = (
            _("this removes {rest}", rest=rest)
            if rest.strip("/*") or "/" in rest
            else _("nothing is removed, and the launcher appends to old logs")
        )
        if meant:
            seen = _(
                "{name} is never set here: {effect}; did you mean {meant}?", name=use.name, effect=effect, meant=meant
            )
        else:
            seen = _("{name} is never set here: {effect}", name=use.name, effect=effect)
        name = meant or use.name
        do = _(
            "Use a new directory for each run, which needs no removal. Or write {expansion}, which "
            "stops if the variable is empty.",
            expansion=f"${{{name}:?}}",
        )
        yield fail(word, seen, do)
    elif loose and deep and re.search(rf"{UNKNOWN}/", word.text):
        use = loose[0]
        seen = _(
            "if {name} is not set from outside, this removes {unknown}",
            name=use.name,
            unknown=word.text.replace(UNKNOWN, "") or "/",
        )
        fix = replace_span(use, f"${{{use.name}:?}}")
        yield warn(
            word,
            seen,
            _("Write {expansion}: the script then stops if the variable is empty.", expansion=f"${{{use.name}:?}}"),
            fix,
        )
    elif deep and word.is_known and (job := _name_results(context, script, word.text)):
        seen = _(
            "removes {path}, the {results} of the previous run, without confirmation", path=word.text[:80], results=job
        )
        yield warn(word, seen, _("Use a separate directory for each run, with the date in its name."))


def _name_results(context: LintContext, script: ShellScript, path: str) -> str:
    for job in context.jobs:
        if job.script is script:
            for name, title in (
                ("log_dir", _("logs")),
                ("output_dir", _("results")),
                ("logging_dir", _("logs")),
                ("save", _("saved checkpoints")),
            ):
                given = job.find_launcher_option(name) or job.find_option(name)
                if given and given.value and given.value.rstrip("/") == path.rstrip("/"):
                    return title
    return ""


def find_unchecked_cd(context: LintContext) -> Iterator[Remark]:
    """Find rm after a cd or an install whose failure is not checked."""
    for script in context.scripts:
        if not script.block.is_script:
            continue
        last = max((n for n, each in enumerate(script.commands) if program_name(each) in REMOVERS), default=0)
        for command in script.commands[:last]:
            if "errexit" in command.shell or command.guarded or command.function:
                continue
            if program_name(command) == "cd" and len(command.words) > 1:
                words = _("if this cd fails, the rm below deletes files in another directory")
                yield warn(command, words, _("Write cd ... || exit 1, or set -e."))
                break
