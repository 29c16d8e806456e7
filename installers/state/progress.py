"""Progress events of a provisioning run; the command decides how to display them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from envcheck.core.messages import Message, _, verbatim
from envcheck.core.units import parse_size

POLL_S = 0.5


@dataclass(frozen=True)
class ProgressEvent:
    """One event; `kind` is begin or end (of a step), say (a message), bytes (`done` of `total` bytes of the download
    named `text`, or an activity) or layer (the same for one `layer` of an image, until it is `over`)."""

    kind: str
    text: Message
    done: int = 0
    total: int = 0
    layer: str = ""
    over: bool = False


Report = Callable[[ProgressEvent], None]


class DownloadProgress:
    """Progress of pip's downloads: name and size from its output, progress from the growth of its temporary folder.

    Only pip 24.1 and newer can print its progress to a pipe; Debian 12 has 23.0, Ubuntu 22.04 has 22.0.
    """

    def __init__(self, scratch: Path, report: Report) -> None:
        self._scratch, self._report = scratch, report
        self._name, self._total, self._before = "", 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_folder, daemon=True)

    def __enter__(self) -> DownloadProgress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def add_line(self, text: str) -> None:
        """Process one line of pip's output: the start of a download or of the installation."""
        if found := re.match(r"\s*Downloading (\S+) \((\d[\d.]*)\s*([kMG]?)B\)", text):
            self._before = _folder_size(self._scratch)
            self._total = parse_size(f"{found[2]}{found[3].upper()}") * 1000 // 1024
            self._name = found[1].rpartition("/")[2]
            self._report(ProgressEvent("bytes", verbatim(self._name), 0, self._total))
        elif text.startswith("Installing collected packages:"):
            self._name = ""
            self._report(ProgressEvent("say", _("installing {packages}", packages=text.partition(":")[2].strip())))

    def _watch_folder(self) -> None:
        while not self._stop.wait(POLL_S):
            name, total = self._name, self._total
            if name:
                done = max(0, min(_folder_size(self._scratch) - self._before, total))
                self._report(ProgressEvent("bytes", verbatim(name), done, total))


def _folder_size(folder: Path) -> int:
    """Return the bytes of all files in the folder; files that vanish during the scan are skipped."""
    total = 0
    for place, _unused, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (twice a second, thousands of files)
            except OSError:
                continue
    return total
