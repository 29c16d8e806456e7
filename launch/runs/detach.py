"""A run that survives its terminal: the watching goes on in a process of its own, with nothing of ours to hold it."""

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

BEGUN = b"begun"
BEGIN_S = 300.0  # in which the launcher is started; a sleepy engine takes a minute
LOG = "envcheck.log"
Begun = Callable[[], None]


def away(run: Path, work: Callable[[Begun], int]) -> int | None:
    """`work` goes on without us, its words in `run`/log/envcheck.log; it calls back once the launcher was started.

    None when it was; else the exit code with which it ended before.
    """
    hear, tell = os.pipe()
    if os.fork() == 0:
        os.close(hear)
        _leave(run / "log" / LOG)
        _work(work, tell)
    os.close(tell)
    said = os.read(hear, 16) if select.select([hear], [], [], BEGIN_S)[0] else b""
    os.close(hear)
    return None if said.startswith(BEGUN) else int(said) if said.isdigit() else errors.BUG


def _leave(log: Path) -> None:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for old, new in ((0, null), (1, words), (2, words)):
        os.dup2(new, old)


def _work(work: Callable[[Begun], int], tell: int) -> None:
    """Never returns: what called us has other things to do in the other process."""
    code = errors.BUG
    try:
        code = work(lambda: _said(tell, BEGUN))
    except EnvcheckError as err:
        click.echo(f"envcheck: {err.message}\n  next: {err.next_step}", err=True)
        code = err.code
    except KeyboardInterrupt:
        code = errors.INTERRUPTED
    except Exception as err:
        from envcheck.core import crash_report

        click.echo(
            f"envcheck: this is a bug in envcheck: {err}\n  next: report it with {crash_report.save(err)}", err=True
        )
    finally:
        _said(tell, str(code).encode())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _said(tell: int, word: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(tell, word)
