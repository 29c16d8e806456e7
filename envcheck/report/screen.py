"""What the terminal can, and a hint on it while something takes its time."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator

from envcheck.core import language
from envcheck.core.language.width import columns
from envcheck.report import Style

WIDEST = 100


def style() -> Style:
    """Of standard output: UTF-8 by its encoding, colours only on a terminal without NO_COLOR."""
    terminal = sys.stdout.isatty()
    return Style(
        width=min(WIDEST, shutil.get_terminal_size((80, 24)).columns),
        unicode=(sys.stdout.encoding or "").lower().replace("-", "") == "utf8",
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )


@contextlib.contextmanager
def hint(text: str) -> Iterator[None]:
    """The text on standard error while the body runs, then gone; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    said = language.say(text)
    sys.stderr.write(said)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r" + " " * columns(said) + "\r")
        sys.stderr.flush()


@contextlib.contextmanager
def progress(text: str, total: int, *, ticking: bool = True) -> Iterator[Callable[[], None]]:
    """On a terminal a bar of parts that have ended, to be told of each; else nothing.

    Without `ticking` its clock goes on with the parts alone, and no thread is at work: this process may be forked.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = (TextColumn(language.say(text)), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True, auto_refresh=ticking) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.update(task, advance=1, refresh=not ticking)
