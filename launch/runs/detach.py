"""`train --detach`: supervise the run in a background process that does not depend on the terminal."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError
from envcheck.core.language import translate
from envcheck.core.messages import Message, _

BEGUN = b"begun"
BEGIN_S = 300.0  # limit for starting the launcher; a slow container engine takes a minute
LOG = "envcheck.log"
StartedCallback = Callable[[], None]


def run_detached(run: Path, work: Callable[[StartedCallback], int]) -> int | None:
    """Run `work` in a background process with output in `run`/log/envcheck.log; `work` calls back when it has started.

    Returns None after the callback, or the exit code if `work` ended before.
    """
    hear, tell = os.pipe()
    if os.fork() == 0:
        os.close(hear)
        _leave_terminal(run / "log" / LOG)
        _run_child(work, tell)
    os.close(tell)
    said = os.read(hear, 16) if select.select([hear], [], [], BEGIN_S)[0] else b""
    os.close(hear)
    return None if said.startswith(BEGUN) else int(said) if said.isdigit() else errors.BUG


def _leave_terminal(log: Path) -> None:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for old, new in ((0, null), (1, words), (2, words)):
        os.dup2(new, old)


def _run_child(work: Callable[[StartedCallback], int], tell: int) -> None:
    """Run `work` and exit; never returns, because the caller continues in the parent process."""
    code = errors.BUG
    try:
        code = work(lambda: _send_word(tell, BEGUN))
    except EnvcheckError as err:
        _print_error(err.message, err.next_step)
        code = err.code
    except KeyboardInterrupt:
        code = errors.INTERRUPTED
    except Exception as err:
        from envcheck.core import crash_report

        words = _("this is a bug in envcheck: {name}: {err}", name=type(err).__name__, err=err)
        _print_error(words, _("Report it with {err}.", err=crash_report.save_crash_report(err)))
    finally:
        _send_word(tell, str(code).encode())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _print_error(message: Message, next_step: Message) -> None:
    click.echo(translate(_("envcheck: {message}", message=message)), err=True)
    if next_step:
        click.echo(f"  {translate(_('next: {next_step}', next_step=next_step))}", err=True)


def _send_word(tell: int, word: bytes) -> None:
    with contextlib.suppress(OSError):  # the parent process has exited
        os.write(tell, word)
