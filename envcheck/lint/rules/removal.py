"""rm of what may be empty, of a root, of the last run's results, or behind a cd that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import UNKNOWN, Remark, Script, Use, Word
from envcheck.core.lint.remarks import fail, near, swap, warn
from envcheck.core.lint.wrappers import bare, unwrapped
from envcheck.lint.rules.unused_variables import REMOVERS, never_set, own_name

_RISKY = ("/", "/*", "~", "~/", "/home", "/root", "/usr", "/etc", "/var", "/opt", "*")


def remove(context: LintContext) -> Iterator[Remark]:
    """rm of what may be empty, of a root, or of the last run's results."""
    for script, command in context.commands(*REMOVERS):
        words = unwrapped(command.words)
        flags = "".join(word.text for word in words[1:] if word.text.startswith("-"))
        for word in words[1:]:
            if word.text.startswith("-") and word.text != "-":
                continue
            uses = [use for use in command.uses if word.start <= use.start < word.end]
            strict = "nounset" in command.shell  # it stops at what has no value, which shell.unset_variable says
            yield from _removed(context, script, word, uses, "r" in flags or "R" in flags, strict)


def _removed(
    context: LintContext, script: Script, word: Word, uses: list[Use], deep: bool, strict: bool
) -> Iterator[Remark]:
    loose = [use for use in uses if not use.guarded and not use.bound and not strict]
    never = [use for use in loose if never_set(script, context, use.name)]
    if word.text in _RISKY and not word.quoted and deep and word.raw == word.text:
        yield fail(word, f"removes {word.text}, all of it", "Name the folder that is meant.")
    elif (
        deep
        and any(not use.guarded for use in uses)
        and word.known
        and word.text in _RISKY
        and not ("*" in word.text and word.quoted)
    ):
        seen = f"{uses[0].name} is empty here, so this removes {word.text}"
        yield fail(word, seen, f"Write ${{{uses[0].name}:?}}: then it stops when that is empty.")
    elif never and own_name(never[0].name):
        use = never[0]
        meant = next(
            (n for n in sorted(script.names) if n.endswith(f"_{use.name}") or near(n, frozenset({use.name}), 0.8)), ""
        )
        rest = word.text.replace(UNKNOWN, "")
        does = (
            f"this removes {rest}"
            if rest.strip("/*") or "/" in rest
            else "nothing is removed, and a launcher appends to old logs"
        )
        seen = f"{use.name} is never given a value here, so {does}" + (f"; {meant} is set" if meant else "")
        name = meant or use.name
        do = f"A new folder for each run needs no removal; else write ${{{name}:?}}, which stops when it is empty."
        yield fail(word, seen, do)
    elif loose and deep and re.search(rf"{UNKNOWN}/", word.text):
        use = loose[0]
        seen = f"where {use.name} is not set from outside, this removes {word.text.replace(UNKNOWN, '') or '/'}"
        fix = swap(use, f"${{{use.name}:?}}")
        yield warn(word, seen, f"Write ${{{use.name}:?}}: then it stops when that is empty.", fix)
    elif deep and word.known and (job := _results(context, script, word.text)):
        seen = f"removes {word.text[:80]}, the {job} of the run before, without asking"
        yield warn(word, seen, "Give each run a folder of its own, with the date in its name.")


def _results(context: LintContext, script: Script, path: str) -> str:
    for job in context.jobs:
        if job.script is script:
            for name, title in (
                ("log_dir", "logs"),
                ("output_dir", "results"),
                ("logging_dir", "logs"),
                ("save", "checkpoints"),
            ):
                given = job.says(name) or job.option(name)
                if given and given.value and given.value.rstrip("/") == path.rstrip("/"):
                    return title
    return ""


def no_errexit(context: LintContext) -> Iterator[Remark]:
    """cd or an installation that failed, and the next line all the same."""
    for script in context.scripts:
        if not script.block.script:
            continue
        for number, command in enumerate(script.commands):
            later = script.commands[number + 1 :]
            if "errexit" in command.shell or command.guarded or command.function:
                continue
            if bare(command) == "cd" and len(command.words) > 1 and any(bare(each) in REMOVERS for each in later):
                words = "where this cd fails, the rm below removes from another folder"
                yield warn(command, words, "cd ... || exit 1, or set -e")
                break
