"""Which of the paths that were looked at lie on one file system."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.core.facts import Disk

NEARLY = 1 << 24  # bytes: somebody writes while the paths are looked at, one after the other


def group_paths(disks: Mapping[str, Disk]) -> list[tuple[tuple[str, ...], Disk]]:
    """Each file system once with its paths, in their order: the same size and nearly the same free bytes are one.

    /dev/shm is one of its own, and what does not tell its room is left out.
    """
    groups: dict[tuple[int, int, bool], list[str]] = {}
    for path, disk in disks.items():
        if disk.total_bytes and disk.free_bytes is not None:
            key = (disk.total_bytes, disk.free_bytes // NEARLY, path == "/dev/shm")
            groups.setdefault(key, []).append(path)
    return [(tuple(paths), disks[paths[0]]) for paths in groups.values()]
