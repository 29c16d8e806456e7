"""The report in the terminal, refreshed every few seconds until Ctrl-C.

The exit code is that of the last verdict, since only Ctrl-C ends it; 130 if there was none.  The last report stays in
the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from envcheck.core import signals
from envcheck.core.errors import INTERRUPTED, UsageError
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.report import screen
from envcheck.report.contents import DoctorReport
from envcheck.report.plain_text import render
from envcheck.report.summary import exit_code

if TYPE_CHECKING:
    from rich.text import Text


def refuse_without_terminal(terminal: bool) -> None:
    """Raise UsageError if there is no terminal to refresh."""
    if not terminal:
        next_step = _("remove --watch; for monitoring, run --format prometheus -o FILE from a timer")
        raise UsageError(_("--watch requires a terminal, but standard output is not a terminal"), next_step)


def show_repeatedly(look: Callable[[], DoctorReport], every_s: float) -> int:
    """Check, show and wait, until Ctrl-C or SIGTERM; return the exit code."""
    from rich.console import Console
    from rich.live import Live

    last: DoctorReport | None = None
    console, plain = (
        Console(highlight=False),
        screen.detect_style(),
    )  # the standard output that Live creates has no encoding
    with signals.handle_signals(signals.raise_interrupt):
        try:
            with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    began = time.monotonic()
                    last = look()
                    style = replace(plain, width=max(40, min(screen.WIDTH_LIMIT, console.width)))
                    shown = render(replace(last, style=style))
                    live.update(_arrange_screen(shown, console.height, every_s, time.monotonic() - began), refresh=True)
                    time.sleep(max(0.2, every_s - (time.monotonic() - began)))
        except KeyboardInterrupt:
            pass
    if last is None:
        return INTERRUPTED
    print(render(replace(last, style=screen.detect_style())), end="")
    return exit_code(last.findings, last.strict)


def _arrange_screen(report: str, height: int, every_s: float, took_s: float) -> Text:
    """The verdict above the areas: in a low terminal, areas are cut."""
    from rich.text import Text

    head, areas, *end = report.rstrip("\n").split("\n\n")
    now = translate(
        _(
            "{now:%H:%M:%S}; checked in {took_s:.1f} s; refreshes every {every_s:g} s; press Ctrl-C to exit",
            now=datetime.now(),
            took_s=took_s,
            every_s=every_s,
        )
    )
    above = [head, *"\n".join(end).split("\n"), ""]
    lines, room = areas.split("\n"), height - len(above) - 3
    if len(lines) > max(1, room):
        more = translate(
            _("... {lines_count} more lines; run envcheck doctor", lines_count=len(lines) - max(1, room - 1))
        )
        lines = [*lines[: max(1, room - 1)], more]
    return Text.from_ansi("\n".join([*above, *lines, "", now]))
