"""The capabilities of the terminal, and a hint or progress bar during slow work."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator

from envcheck.core import language
from envcheck.core.language.width import display_width
from envcheck.report import Style

WIDTH_LIMIT = 100


def detect_style() -> Style:
    """Return the style of standard output: UTF-8 by its encoding, colours only on a terminal without NO_COLOR."""
    terminal = sys.stdout.isatty()
    return Style(
        width=min(WIDTH_LIMIT, shutil.get_terminal_size((80, 24)).columns),
        encoding=sys.stdout.encoding or "ascii",
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )


@contextlib.contextmanager
def show_hint(text: str) -> Iterator[None]:
    """Show the text on standard error while the body runs, only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    shown_text = language.translate(text)
    sys.stderr.write(shown_text)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r" + " " * display_width(shown_text) + "\r")
        sys.stderr.flush()


@contextlib.contextmanager
def show_progress(text: str, total: int, *, ticking: bool = True) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal; call the yielded function after each finished part.

    Without `ticking`, the clock advances only with the parts, and no thread runs: this process may be forked.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = (TextColumn(language.translate(text)), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True, auto_refresh=ticking) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.update(task, advance=1, refresh=not ticking)
