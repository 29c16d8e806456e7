"""The command line: a table of verbs, and the one place where exceptions become a sentence and an exit code."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from envcheck.cli import translate_help, usage_errors
from envcheck.cli.documents import print_document
from envcheck.core import errors, language, paths
from envcheck.core.version import __version__

# verb → where its command stands (attribute of the same name).  Imported only when asked for: --version stays quick.
COMMANDS = {
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


class Verbs(usage_errors.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return translate_help.spoken(command)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise StoppedError from None  # click would end the line of the ^C even where there is no terminal
        except BrokenPipeError:
            raise UnreadError from None  # click has an exit code of its own for it


class StoppedError(Exception):
    """By Ctrl-C or a signal, in the middle of a command."""


class UnreadError(Exception):
    """Whoever read what the command prints went away."""


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envcheck")
def main() -> None:
    """Is this machine fit to fine-tune a large model; if not, make it so; then train.

    \b
    envcheck doctor                                         what stands between this machine and training
    envcheck provision --device cpu                         install what is missing, each step shown and proved
    envcheck train --model tiny --method lora --device cpu  start it, if the checks allow it
    """


def entry(argv: list[str] | None = None) -> None:
    """Run and exit; never a traceback."""
    # Imports make many objects and no garbage: looking for some while they last costs doctor a twentieth of its time,
    # and once more at the end a tenth.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _open_streams()
    sys.exit(_code(argv))


def _open_streams() -> None:
    """What was closed before us (>&-) goes nowhere: else the next file that is opened would be standard output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _code(argv: list[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        language.choose(words)
        translate_help.spoken(main)
        result: Any = main.main(args=list(words), prog_name="envcheck", standalone_mode=False)
        return result if isinstance(result, int) else errors.FIT
    except (UnreadError, BrokenPipeError):
        _give_up_stdout()  # whoever read us has enough; what was not read is not "fit"
        return errors.UNTOLD
    except (Exception, KeyboardInterrupt) as err:
        return _report(err, _wants_document(words))


def _report(err: BaseException, as_document: bool) -> int:
    """The sentence on standard error, with --json a document on standard output as well; the exit code."""
    refusal = _refusal(err)
    try:
        if isinstance(err, click.Abort) or (refusal.code == errors.INTERRUPTED and sys.stderr.isatty()):
            click.echo(err=True)  # ends the line of a question, or of the terminal's ^C
        _print_refusal(refusal)
    except Exception:  # of the tables of a language, which may be what broke
        click.echo(f"envcheck: {refusal.message}\n  next: {refusal.next_step}", err=True)
    if as_document:
        try:
            _print_document(refusal)
        except OSError:  # nobody reads it, or the disk is full
            _give_up_stdout()
    return refusal.code


def _wants_document(words: Sequence[str]) -> bool:
    own = [*words[: words.index("--") if "--" in words else None]]
    return "--json" in own or "--format=json" in own or ("--format", "json") in itertools.pairwise(own)


def _refusal(err: BaseException) -> errors.EnvcheckError:
    """Whatever ended the command, as a sentence with a next step and an exit code."""
    match err:
        case errors.EnvcheckError():
            return err
        case click.Abort() | StoppedError() | KeyboardInterrupt():
            return _with_code(errors.INTERRUPTED, "interrupted")
        case click.ClickException():
            return errors.UsageError(usage_errors.said(err), usage_errors.next_step(err))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            where = f" {err.filename}" if err.filename else ""
            _keep_or_give_up_stdout()
            return errors.UsageError(f"cannot write{where}: {err.strerror}", "make room (df -h), then run it again")
        case OSError() if err.errno in paths.NEVER:  # of a word that is a name in one place and a path in another
            return errors.UsageError(f"no file can be {str(err.filename)[:80]!r}: {err.strerror}", "name another")
    from envcheck.core import crash_report

    words = f"this is a bug in envcheck: {type(err).__name__}: {err}"
    return _with_code(errors.BUG, words, f"report it with {crash_report.save(err)}")


def _with_code(code: int, message: str, next_step: str = "") -> errors.EnvcheckError:
    refusal = errors.EnvcheckError(message, next_step)
    refusal.code = code
    return refusal


def _print_refusal(refusal: errors.EnvcheckError) -> None:
    say = language.say
    click.echo(f"envcheck{say(': ')}{_plain(say(refusal.message))}", err=True)
    if refusal.next_step:
        click.echo(f"  {say('next: ')}{_plain(say(refusal.next_step))}", err=True)


def _print_document(refusal: errors.EnvcheckError) -> None:
    language.for_a_program()
    say = language.say
    told = {"error": _plain(say(refusal.message)), "exit_code": refusal.code, "next": _plain(say(refusal.next_step))}
    print_document({**refusal.document, **told, "next": told["next"] or refusal.document.get("next", "")})


def _plain(text: str) -> str:
    """What a stranger's file or a tool said moves no cursor, and no line of it is without end."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    return "\n".join(
        line if len(line) <= LINE else f"{line[: LINE // 2]} ... {line[-LINE // 2 :]}" for line in shown.split("\n")
    )


LINE = 1000  # characters


def _keep_or_give_up_stdout() -> None:
    """What is full may be another disk than that of standard output."""
    try:
        sys.stdout.flush()
    except OSError:
        _give_up_stdout()


def _give_up_stdout() -> None:
    """What is left in the buffer goes nowhere: else the interpreter would try it again at exit, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
