"""The supervisor of a run: a background process that depends neither on the terminal nor on the typed command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass
class Supervisor:
    """The supervisor as a child process; `pipe` receives a word when the launcher runs."""

    pid: int
    pipe: int
    log: Path
    status: int | None = field(default=None)

    def wait_until_started(self) -> int | None:
        """Return None when the launcher runs, or the exit code of a supervisor that ended before."""
        said = os.read(self.pipe, 16) if select.select([self.pipe], [], [], BEGIN_S)[0] else b""
        os.close(self.pipe)
        return None if said.startswith(BEGUN) else int(said) if said.isdigit() else errors.BUG

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self.status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if ended else None
        return self.status

    def request_stop(self) -> None:
        """Ask it to stop the run as Ctrl-C does; a second request stops at once."""
        if self.poll() is None:  # until it is reaped, the pid is its own
            os.kill(self.pid, signal.SIGTERM)


def start_supervisor(run: Path, work: Callable[[StartedCallback], int]) -> Supervisor:
    """Run `work` in a background process, with output in `run`/log/envcheck.log; it calls back when it has started."""
    hear, tell = os.pipe()
    log = run / "log" / LOG
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(hear)
        _leave_terminal(log)
        _run_child(work, tell)
    os.close(tell)
    return Supervisor(pid, hear, log)


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
        from envcheck.core import local_files

        words = _("this is a bug in envcheck: {name}: {err}", name=type(err).__name__, err=err)
        _print_error(words, _("Report it with {err}.", err=local_files.save_crash_report(err)))
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
