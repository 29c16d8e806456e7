"""File access on this host, for targets that run commands here. The container target has the same methods."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from envcheck.core import process


class LocalFiles:
    """File operations of a target on this host.  Paths are strings; `limit` is the maximum size that is read, in
    characters."""

    limit: ClassVar[int]

    def stop_command(self, argv: Sequence[str]) -> None:
        """Kill the command that another thread is running with these arguments."""
        process.terminate_matching(argv)

    def write_file(self, path: str, content: str) -> None:
        """Write a UTF-8 text file; OSError if that fails."""
        Path(path).write_text(content, encoding="utf-8")

    def read_file(self, path: str) -> str:
        """Return the first `limit` characters of the file, or "" if it cannot be read."""
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                return file.read(self.limit)
        except OSError:
            return ""

    def list_folder(self, folder: str) -> list[str]:
        """Return the sorted names in the folder, or [] if it cannot be read."""
        try:
            return sorted(entry.name for entry in Path(folder).iterdir())
        except OSError:
            return []


def recreate_folder(folder: Path) -> str:
    """Delete the folder, create it empty, and return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return str(folder)
