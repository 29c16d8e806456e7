"""What a run tells while it works, as events; how they look is the command's business."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from envcheck.core.units import size_bytes

POLL_S = 0.5


@dataclass(frozen=True)
class Event:
    """`kind`: begin and end (of a step), say (a sentence), bytes (`done` of `total` of a download, `text` its name),
    layer (the same of one layer of an image; `text` is its name and what happens to it)."""

    kind: str
    text: str
    done: int = 0
    total: int = 0


Report = Callable[[Event], None]


class Downloads:
    """Progress of pip's downloads: its line tells name and size, the growth of its temporary folder how far it is.

    Only pip 24.1 and newer can print the progress itself; Debian 12 has 23.0, Ubuntu 22.04 has 22.0.
    """

    def __init__(self, scratch: Path, report: Report) -> None:
        self._scratch, self._report = scratch, report
        self._name, self._total, self._before = "", 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Downloads:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def line(self, text: str) -> None:
        """A line of pip's: a download that begins, or one of the sentences worth showing."""
        if found := re.match(r"\s*Downloading (\S+) \((\d[\d.]*)\s*([kMG]?)B\)", text):
            self._before = _size(self._scratch)
            self._total = size_bytes(f"{found[2]}{found[3].upper()}") * 1000 // 1024
            self._name = found[1].rpartition("/")[2]
            self._report(Event("bytes", self._name, 0, self._total))
        elif text.startswith("Installing collected packages:"):
            self._name = ""
            self._report(Event("say", f"unpacking {text.partition(':')[2].strip()}"))

    def _watch(self) -> None:
        while not self._stop.wait(POLL_S):
            name, total = self._name, self._total
            if name:
                done = max(0, min(_size(self._scratch) - self._before, total))
                self._report(Event("bytes", name, done, total))


def _size(folder: Path) -> int:
    """Bytes of the files below; what vanishes meanwhile does not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (twice a second, thousands of files)
            except OSError:
                continue
    return total
