"""Groups paths by file system."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.core.facts import Disk

NEARLY = 1 << 24  # bytes; other programs write while the paths are measured


def group_paths(disks: Mapping[str, Disk]) -> list[tuple[tuple[str, ...], Disk]]:
    """Return each file system once with its paths: the same size and nearly the same free space count as one.

    /dev/shm is always separate; paths with unknown space are left out.
    """
    groups: dict[tuple[int, int, bool], list[str]] = {}
    for path, disk in disks.items():
        if disk.total_bytes and disk.free_bytes is not None:
            key = (disk.total_bytes, disk.free_bytes // NEARLY, path == "/dev/shm")
            groups.setdefault(key, []).append(path)
    return [(tuple(paths), disks[paths[0]]) for paths in groups.values()]
