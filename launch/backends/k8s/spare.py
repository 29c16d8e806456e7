"""psutil for the gates of a pod whose image has none: what a fleet's node gets, and what they ask of processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envcheck.payload.plain_psutil import (  # noqa: F401  psutil's own names
    disk_partitions,
    net_if_addrs,
    net_if_stats,
    swap_memory,
    virtual_memory,
)

STATUS_ZOMBIE = "zombie"
PROC = Path("/proc")


class Error(Exception):
    """As psutil's."""


class GoneError(Error):
    """As psutil's NoSuchProcess."""


NoSuchProcess = GoneError


class Process:
    """What /proc says of a process that runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def environ(self) -> dict[str, str]:
        pairs = self._read("environ").split("\0")
        return dict(pair.partition("=")[::2] for pair in pairs if "=" in pair)

    def status(self) -> str:
        """The letter behind the name, which may hold brackets itself."""
        letter = self._read("stat").rpartition(") ")[2][:1]
        return STATUS_ZOMBIE if letter == "Z" else "running"

    def _read(self, name: str) -> str:
        try:
            return (PROC / str(self.pid) / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise GoneError(str(self.pid)) from None


def process_iter() -> Iterator[Process]:
    yield from (Process(int(path.name)) for path in PROC.iterdir() if path.name.isdecimal())
