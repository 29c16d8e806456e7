"""The full screen of `train --dashboard`; plain progress lines without a suitable terminal."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from envcheck.core.signals import tolerate_lost_output
from launch.logs.training_step import TrainingStep
from launch.run.watch import ProgressLine, RunWatch
from launch.watching.run_moment import RunMoment
from launch.watching.screen_page import WatchPage, render_page

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


def can_draw(stream: TextIO) -> bool:
    """Whether the stream is a terminal that supports a full screen."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


class WatchScreen:
    """A progress display like ProgressLine, redrawn by `draw_page` about once a second."""

    def __init__(self, title: str, stream: TextIO | None = None, of: int | None = None) -> None:
        self.title, self.of = title, of
        self.stream = stream or sys.stderr
        self.last: TrainingStep | None = None
        self.plain_line = None if can_draw(self.stream) else ProgressLine(self.stream, of)
        self.live = None if self.plain_line else self._start_live()

    def _start_live(self) -> Live:
        from rich.console import Console  # imported only for a terminal
        from rich.live import Live

        self.console: Console = Console(file=self.stream)
        live = Live(console=self.console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        live.start()
        return live

    def __call__(self, step: TrainingStep) -> None:
        self.last = step
        if self.plain_line:
            self.plain_line(step)

    def draw_page(self, watch: RunWatch, state: RunMoment, ending: str = "") -> None:
        """Redraw the screen."""
        if self.live is None:
            return
        from rich.text import Text

        shown = WatchPage(
            self.title, replace(state, steps=tuple(watch.steps)), self.of, watch.list_newest_lines(), ending
        )
        size = self.console.size
        unicode = (self.stream.encoding or "").lower().replace("-", "") == "utf8"
        lines = render_page(shown, size.width, size.height - 1, unicode)
        text = Text("\n".join(lines), no_wrap=True, overflow="crop")
        text.highlight_regex(r"\b(?:OK)\b|█+", "green")
        text.highlight_regex(r"\b(?:Alarm|Critical|Warning|nan|inf)\b", "bold red")
        with tolerate_lost_output():
            self.live.update(text, refresh=True)

    def close(self) -> None:
        """Restore the terminal and print the last step."""
        if self.plain_line:
            self.plain_line.close()
        elif self.live:
            with tolerate_lost_output():
                self.live.stop()
            self.live = None
            if self.last:
                closing = ProgressLine(self.stream, self.of, plain=True)
                closing(self.last)
                closing.close()
