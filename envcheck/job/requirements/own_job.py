"""Requirements of a user's own job: a script without mistakes, and the programs that it starts."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, job_check
from envcheck.core.facts import Facts
from envcheck.core.findings import fail, ok, skip, unknown, warn
from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Finding, diagnose, manual
from envcheck.job.requirements.demand import get_demand

SHOWN_LINES, SHOWN_PROGRAMS = 20, 4


def check_script(facts: Facts) -> Iterator[Finding]:
    """The linter finds no failure in the file or the command of an own job."""
    script = get_demand(facts).script
    if script is None or not script.is_linted:
        yield skip(_("envcheck writes the command of a recipe"))
        return
    lines, commands = script.mistakes or script.warnings, (f"envcheck lint {script.name}",) if script.is_file else ()
    remedy, shown = diagnose(_("Correct these lines."), *commands), lines[:SHOWN_LINES]
    count = len(lines)
    if script.mistakes:
        seen = ngettext("{count} mistake in {name}", "{count} mistakes in {name}", count, name=script.name)
        yield fail(seen, remedy, shown)
    elif script.no_training:
        words = _("Give the command or the file that starts the training.")
        yield unknown(script.no_training, manual(words), shown)
    elif script.warnings:
        seen = ngettext("{count} warning in {name}", "{count} warnings in {name}", count, name=script.name)
        yield warn(seen, remedy, shown)
    elif script.unread:
        yield unknown(script.unread, diagnose(_("Install it."), script.unread_remedy))
    else:
        yield ok(_("no mistakes found in {name}", name=script.name))


def check_programs(facts: Facts) -> Iterator[Finding]:
    """PATH has the programs that an own job starts."""
    script = get_demand(facts).script
    words = _("Install it, or activate the environment that has it.")
    if script is None:
        yield skip(_("the job has no command of its own"))
    elif script.absent:
        yield fail(join("; ", script.absent[:SHOWN_PROGRAMS]), manual(words))
    elif script.unsure:
        yield unknown(join("; ", script.unsure[:SHOWN_PROGRAMS]), manual(words))
    else:
        yield ok(_("PATH has every program of the job"))


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.script",
        check_script,
        source="the job's file or command",
        reads="the job's file or command",
        rule="FAIL if the linter finds a mistake; WARN for its warnings; UNKNOWN without a training or shell grammar",
        fix="Correct the lines that envcheck lint shows.",
    ),
    job_check(
        "job.programs",
        check_programs,
        source="the job's file or command",
        reads="PATH, and the job's file or command",
        rule="FAIL if PATH lacks a program that the job starts; UNKNOWN if a script changes PATH, or on another host",
        fix="Install the program, or activate the environment that has it.",
    ),
)
