"""The full screen of `train --watch`; where there is no terminal for it, the plain lines of the usual teller."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from envcheck.core.signals import unheard
from launch.logs.step import TrainingStep
from launch.run.watch import Teller, Watch
from launch.watching.page import WatchPage, page
from launch.watching.state import RunMoment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


def fits(stream: TextIO) -> bool:
    """Whether a whole screen can be drawn there."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


class WatchScreen:
    """Like a Teller, and drawn anew by `show` about once a second."""

    def __init__(self, title: str, stream: TextIO | None = None, of: int | None = None) -> None:
        self.title, self.of = title, of
        self.stream = stream or sys.stderr
        self.last: TrainingStep | None = None
        self.teller = None if fits(self.stream) else Teller(self.stream, of)
        self.live = None if self.teller else self._begun()

    def _begun(self) -> Live:
        from rich.console import Console  # loaded where there is a terminal to show it on
        from rich.live import Live

        self.console: Console = Console(file=self.stream)
        live = Live(console=self.console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        live.start()
        return live

    def __call__(self, step: TrainingStep) -> None:
        self.last = step
        if self.teller:
            self.teller(step)

    def show(self, watch: Watch, state: RunMoment, ending: str = "") -> None:
        if self.live is None:
            return
        from rich.text import Text

        shown = WatchPage(self.title, replace(state, steps=tuple(watch.steps)), self.of, watch.lines(), ending)
        size = self.console.size
        unicode = (self.stream.encoding or "").lower().replace("-", "") == "utf8"
        lines = page(shown, size.width, size.height - 1, unicode)
        text = Text("\n".join(lines), no_wrap=True, overflow="crop")
        text.highlight_regex(r"\b(?:OK)\b|█+", "green")
        text.highlight_regex(r"\b(?:Alarm|Critical|Warning|nan|inf)\b", "bold red")
        with unheard():
            self.live.update(text, refresh=True)

    def close(self) -> None:
        """The terminal as it was; the last step stays as a line."""
        if self.teller:
            self.teller.close()
        elif self.live:
            with unheard():
                self.live.stop()
            self.live = None
            if self.last:
                closing = Teller(self.stream, self.of, plain=True)
                closing(self.last)
                closing.close()
