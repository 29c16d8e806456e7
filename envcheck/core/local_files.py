"""Files of this host, for whoever runs commands on it: a container's target does the same with the container's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from envcheck.core import process


class OnHost:
    """Paths are strings, as a container's are; of a file `limit` bytes are read."""

    limit: ClassVar[int]

    def stop(self, argv: Sequence[str]) -> None:
        """End a command that `run` waits for in another thread."""
        process.end_what_runs(argv)

    def write(self, path: str, content: str) -> None:
        Path(path).write_text(content, encoding="utf-8")

    def read(self, path: str) -> str:
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                return file.read(self.limit)
        except OSError:
            return ""

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in Path(folder).iterdir())
        except OSError:
            return []


def emptied(folder: Path) -> str:
    """The folder, made anew with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return str(folder)
