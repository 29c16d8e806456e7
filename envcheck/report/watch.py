"""The report in the terminal, looked at anew every few seconds, until Ctrl-C.

It ends with the last verdict's exit code, since Ctrl-C is its only end; with 130 where there was no verdict yet.  The
last report stays in the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from envcheck.core import signals
from envcheck.core.errors import INTERRUPTED, UsageError
from envcheck.core.language import say
from envcheck.report import screen
from envcheck.report.contents import Report
from envcheck.report.summary import exit_code
from envcheck.report.text import render

if TYPE_CHECKING:
    from rich.text import Text


def refuse(terminal: bool) -> None:
    """UsageError where there is no terminal to refresh."""
    if not terminal:
        next_step = "leave it out; for a monitor, write --format prometheus -o FILE from a timer"
        raise UsageError("--watch wants a terminal, and standard output is none", next_step)


def watch(look: Callable[[], Report], every_s: float) -> int:
    """Look, show, wait, until Ctrl-C or SIGTERM; the exit code."""
    from rich.console import Console
    from rich.live import Live

    last: Report | None = None
    console, plain = Console(highlight=False), screen.style()  # Live's own standard output tells no encoding
    with signals.heard_by(signals.interrupt):
        try:
            with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    began = time.monotonic()
                    last = look()
                    style = replace(plain, width=max(40, min(screen.WIDEST, console.width)))
                    shown = render(replace(last, style=style))
                    live.update(_screen(shown, console.height, every_s, time.monotonic() - began), refresh=True)
                    time.sleep(max(0.2, every_s - (time.monotonic() - began)))
        except KeyboardInterrupt:
            pass
    if last is None:
        return INTERRUPTED
    print(render(replace(last, style=screen.style())), end="")
    return exit_code(last.findings, last.strict)


def _screen(report: str, height: int, every_s: float, took_s: float) -> Text:
    """The verdict above the areas: where the terminal is too low, it is areas that are cut."""
    from rich.text import Text

    head, areas, *end = report.rstrip("\n").split("\n\n")
    now = say(f"{datetime.now():%H:%M:%S}, looked for {took_s:.1f} s, again every {every_s:g} s; Ctrl-C ends")
    above = [head, *"\n".join(end).split("\n"), ""]
    lines, room = areas.split("\n"), height - len(above) - 3
    if len(lines) > max(1, room):
        more = say(f"... {len(lines) - max(1, room - 1)} more lines: envcheck doctor")
        lines = [*lines[: max(1, room - 1)], more]
    return Text.from_ansi("\n".join([*above, *lines, "", now]))
