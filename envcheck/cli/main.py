"""The command line: the table of commands, and the only place where exceptions become a message and an exit code."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from envcheck.cli import translate_help, usage_errors
from envcheck.cli.json_document import print_document
from envcheck.cli.own_packages import refuse_foreign_packages
from envcheck.core import errors, language, paths, signals
from envcheck.core.errors import describe_os_error
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.version import __version__

# command → its module (attribute of the same name); imported on use, so that --version is fast
COMMANDS = {
    "init": "envcheck.cli.commands.init",
    "doctor": "envcheck.cli.commands.doctor",
    "provision": "envcheck.cli.commands.provision",
    "bundle": "envcheck.cli.commands.bundle",
    "pyz": "envcheck.cli.commands.bundle",
    "train": "envcheck.cli.commands.train",
    "runs": "envcheck.cli.commands.runs",
    "slurm": "envcheck.cli.commands.slurm",
    "infer": "envcheck.cli.commands.infer",
    "plan": "envcheck.cli.commands.plan",
    "solve": "envcheck.cli.commands.solve",
    "explain": "envcheck.cli.commands.explain",
    "lint": "envcheck.cli.commands.lint",
    "parse": "envcheck.cli.commands.parse",
    "snapshot": "envcheck.cli.commands.snapshot",
    "simulate": "envcheck.cli.commands.simulate",
    "recipes": "envcheck.cli.commands.recipes",
    "schema": "envcheck.cli.commands.schema",
    "completion": "envcheck.cli.commands.completion",
}


class LazyCommandGroup(usage_errors.SuggestingGroup):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return translate_help.localise_command(command)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # click would print a line end after ^C even without a terminal.
            raise CommandInterruptedError from None
        except BrokenPipeError:
            raise OutputClosedError from None  # click uses its own exit code for it


class CommandInterruptedError(Exception):
    """The command was interrupted by Ctrl-C or a signal."""


class OutputClosedError(Exception):
    """The reader of standard output closed it."""


@click.command(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envcheck")
def main() -> None:
    """Check, set up and run fine-tuning of large models on Ascend, Iluvatar, NVIDIA and other devices.

    \b
    envcheck doctor                                         check this machine
    envcheck provision --device cpu                         install what is missing
    envcheck train --model tiny --method lora --device cpu  start a training run
    """


def entry(argv: list[str] | None = None) -> None:
    """Run the command line and exit; never print a traceback."""
    # Imports create many objects but no garbage: collecting meanwhile costs doctor 5 % of its time, and 10 % at exit.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _open_streams()
    signals.repeat_swallowed_signals()
    sys.exit(_run_command(argv))


def _open_streams() -> None:
    """Open closed standard streams (>&-) on /dev/null: otherwise the next opened file would be standard output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _run_command(argv: list[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        language.choose_language(words)
        refuse_foreign_packages()
        if not os.access(os.curdir, os.X_OK):
            raise errors.UsageError(_("this user may not enter the working folder"), _("change to another folder"))
        translate_help.localise_command(main)
        result: Any = main.main(args=list(words), prog_name="envcheck", standalone_mode=False)
        return result if isinstance(result, int) else errors.SUCCESS
    except (OutputClosedError, BrokenPipeError):
        _give_up_stdout()  # the reader closed the pipe; unread output must not report success
        return errors.UNDETERMINED
    except (Exception, KeyboardInterrupt) as err:
        return _report_error(err, _wants_document(words))


def _report_error(err: BaseException, as_document: bool) -> int:
    """Print the message on standard error, with --json also a document on standard output; return the exit code."""
    refusal = _convert_error(err)
    try:
        if isinstance(err, click.Abort) or (refusal.code == errors.INTERRUPTED and sys.stderr.isatty()):
            click.echo(err=True)  # ends the line of a question, or of the terminal's ^C
        _print_refusal(refusal, language.translate)
    except Exception:  # of the catalogue, which may be the broken part
        _print_refusal(refusal, str)
    if as_document:
        try:
            _print_document(refusal)
        except OSError:  # a closed pipe, or a full disk
            _give_up_stdout()
    return refusal.code


def _wants_document(words: Sequence[str]) -> bool:
    own = [*words[: words.index("--") if "--" in words else None]]
    return "--json" in own or "--format=json" in own or ("--format", "json") in itertools.pairwise(own)


def _convert_error(err: BaseException) -> errors.EnvcheckError:
    """Convert an exception to a message with a next step and an exit code."""
    match err:
        case errors.EnvcheckError():
            return err
        case click.Abort() | CommandInterruptedError() | KeyboardInterrupt():
            return _make_error(errors.INTERRUPTED, _("interrupted"))
        case click.ClickException():
            return errors.UsageError(usage_errors.describe_error(err), usage_errors.suggest_next_step(err))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            where = f" {err.filename}" if err.filename else ""
            _keep_or_give_up_stdout()
            return errors.UsageError(
                _("cannot write{where}: {strerror}", where=where, strerror=describe_os_error(err)),
                _("free disk space (check with df -h), then run the command again"),
            )
        case OSError() if (
            err.errno in paths.IMPOSSIBLE_PATH_ERRORS
        ):  # a word that is a name in one place and a path in another
            return errors.UsageError(
                _(
                    "invalid file name {filename!r}: {strerror}",
                    filename=str(err.filename)[:80],
                    strerror=describe_os_error(err),
                ),
                _("specify another file name"),
            )
    from envcheck.core import local_files

    words = _("this is a bug in envcheck: {name}: {err}", name=type(err).__name__, err=err)
    return _make_error(errors.BUG, words, _("Report it with {err}.", err=local_files.save_crash_report(err)))


def _make_error(code: int, message: Message, next_step: Message = NOTHING) -> errors.EnvcheckError:
    refusal = errors.EnvcheckError(message, next_step)
    refusal.code = code
    return refusal


def _print_refusal(refusal: errors.EnvcheckError, say: Callable[[Message], str]) -> None:
    click.echo(_sanitise_text(say(_("envcheck: {message}", message=refusal.message))), err=True)
    if refusal.next_step:
        click.echo(f"  {_sanitise_text(say(_('next: {next_step}', next_step=refusal.next_step)))}", err=True)


def _print_document(refusal: errors.EnvcheckError) -> None:
    language.use_program_language()
    say = language.translate
    told = {
        "error": _sanitise_text(say(refusal.message)),
        "exit_code": refusal.code,
        "next": _sanitise_text(say(refusal.next_step)),
    }
    print_document({**refusal.document, **told, "next": told["next"] or refusal.document.get("next", "")})


def _sanitise_text(text: str) -> str:
    """Remove cursor movements from untrusted text, and cut long lines."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    return "\n".join(
        line if len(line) <= LINE_LIMIT else f"{line[: LINE_LIMIT // 2]} ... {line[-LINE_LIMIT // 2 :]}"
        for line in shown.split("\n")
    )


LINE_LIMIT = 1000  # characters


def _keep_or_give_up_stdout() -> None:
    """A full disk may be another one than that of standard output."""
    try:
        sys.stdout.flush()
    except OSError:
        _give_up_stdout()


def _give_up_stdout() -> None:
    """Discard buffered output: otherwise the interpreter would try again at exit, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
