"""The user's own job on the command line: a file, or a command after --."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from envcheck.cli.requests import argument
from envcheck.cli.usage_errors import SingleValueCommand
from envcheck.core.errors import UsageError
from envcheck.core.local_files import is_folder, may_exist
from envcheck.core.messages import _, mark

if TYPE_CHECKING:
    from envcheck.core.lint.own_job import OwnJob

AFTER_DASHES = "envcheck.after_dashes"  # in the context: how many words follow --
# Options that select a recipe's job, which a file or a command does itself.
SELECTING = ("recipe", "model", "method", "framework", "variant", "node_role")


class JobCommand(click.Command):
    """Remembers which words follow --: click drops it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[AFTER_DASHES] = len(args) - args.index("--") - 1 if "--" in args else 0
        return super().parse_args(ctx, args)


class SingleValueJobCommand(JobCommand, SingleValueCommand):
    """Both."""


def job_argument(metavar: str = mark("[FILE | -- COMMAND]")) -> Any:
    """Return the field of a request for the words of an own job."""
    return argument(nargs=-1, type=click.UNPROCESSED, metavar=metavar, shell_complete=_complete_files)


def _complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def read_own_job(
    words: Sequence[str], given: Iterable[str], others: Sequence[str] = (), fillable: Sequence[str] = ()
) -> OwnJob | None:
    """Return the user's own job; None if there is none, or if the words after -- are options of a recipe's program.

    UsageError for a file that cannot be read, and for one beside an option that selects a recipe's job, or one of the
    options in `others`.  Options in `fillable` may fill what the job does not state.
    """
    given = set(given).difference(fillable) if words else given
    context = click.get_current_context()
    after = min(len(words), context.meta.get(AFTER_DASHES, 0))
    files, more = tuple(words[: len(words) - after]), tuple(words[len(words) - after :])
    selected = [name for name in SELECTING if name in given]
    if not files and (selected or not more or more[0].startswith("-")):
        return None
    named = files[0] if files else _("the command")
    if refused := next((name for name in (*SELECTING, *others) if name in given), None):
        raise _refuse_option(named, _find_word(context, refused))
    from envcheck.job.installed_frameworks import find_installed_frameworks

    if not files:
        from envcheck.scripts.jobs.own_job_reader import read_command_job

        return read_command_job(more, os.environ, find_installed_frameworks(os.environ))
    if len(files) > 1:
        raise UsageError(
            _("{command} takes one file, got {count}", command=context.command_path, count=len(files)),
            _("put further words of the job's command after --"),
        )
    refuse_unreadable_file(files[0], context.command_path)
    from envcheck.scripts.jobs.own_job_reader import read_file_job

    return read_file_job(files[0], more, os.environ, find_installed_frameworks(os.environ))


def refuse_unreadable_file(file: str, command: str) -> None:
    """Raise UsageError for standard input, a folder, a missing file, and a Python program."""
    example = _("for example: {command} run.sh", command=command)
    if file == "-":
        raise UsageError(_("{command} needs a file, not standard input", command=command), example)
    if "\0" in file or len(file) > 4000:
        raise UsageError(_("invalid file name"), example)
    if is_folder(file):
        raise UsageError(_("{file} is a directory", file=file), example)
    if not may_exist(file):
        raise UsageError(_("{file} does not exist", file=file[:200]), example)
    if file.endswith(".py"):
        raise UsageError(
            _("{file} is a program, not a job", file=file),
            _("give its whole command: {command} -- python {file}", command=command, file=file),
        )


def _refuse_option(named: str, option: str) -> UsageError:
    return UsageError(
        _("{option} cannot be combined with {file}", option=option, file=named),
        _("set the value in the job itself, or remove {option}", option=option),
    )


def _find_word(context: click.Context, name: str) -> str:
    return next(p.opts[0] for p in context.command.params if p.name == name)
