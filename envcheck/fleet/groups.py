"""What @ stands for in a set of hosts: ClusterShell's groups, and partitions of the site's Slurm.  Imported late."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ClusterShell.NodeSet import DEF_GROUPS_CONFIGS, ILLEGAL_GROUP_CHARS
from ClusterShell.NodeUtils import GroupResolver, GroupResolverConfig, GroupSource

from envcheck.core.errors import UsageError
from envcheck.core.process import run

SINFO = ("sinfo", "--noheader", "--format=%R %N")
NEXT = "name the hosts as node[01-08]; sinfo shows what Slurm has"
TIMEOUT_S = 30.0
# Groups come from any of these in a folder of ClusterShell's (groups.conf(5)).
FILES = ("groups", "groups.conf", "groups.conf.d/*.conf", "groups.d/*.cfg", "groups.d/*.yaml")


class Partitions(GroupSource):
    """@slurm:NAME; sinfo is asked when the first one is looked up."""

    def resolv_map(self, group: str) -> str:
        found = partitions()
        if group not in found:
            raise UsageError(f"Slurm has no partition {group[:80]}, but {', '.join(found)[:200] or 'none'}", NEXT)
        return found[group]

    def resolv_list(self) -> list[str]:
        return list(partitions())

    def resolv_all(self) -> str:
        return ",".join(partitions().values())


def resolver() -> GroupResolver:
    """The user's own groups; where no source of theirs is called slurm, that is the site's Slurm."""
    brought = dict(_brought())
    paths = [path for path in DEF_GROUPS_CONFIGS if not examples(Path(path).parent, brought)]
    found = GroupResolverConfig(paths, ILLEGAL_GROUP_CHARS)
    with contextlib.suppress(ValueError):  # there is one of that name
        found.add_source(Partitions("slurm"))
    return found


def examples(folder: Path, brought: dict[Path, str]) -> bool:
    """Whether nothing there was written by anybody: pip puts ClusterShell's examples beside the library, and they would
    hide the groups in /etc, and let @gpu be hosts called example156 to example159."""
    files = [path.resolve() for pattern in FILES for path in folder.glob(pattern)]
    return bool(files) and all(brought.get(path) == _sum(path) for path in files)


def _brought() -> Iterator[tuple[Path, str]]:
    """What pip wrote outside of the library itself, with the sums that it noted."""
    try:
        listed = metadata.files("ClusterShell") or []
    except metadata.PackageNotFoundError:
        return
    for file in listed:
        if "clustershell" in file.parts and file.hash:
            yield Path(str(file.locate())).resolve(), file.hash.value


def _sum(path: Path) -> str:
    """As a RECORD of pip's has it."""
    try:
        digest = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@functools.cache
def partitions() -> dict[str, str]:
    """The nodes of each, by the answer to SINFO: a line `npu node[01-08]` for each, without nodes the name alone."""
    told = run(SINFO, timeout_s=TIMEOUT_S)
    if told.absent:
        raise UsageError("@slurm: there is no sinfo here", NEXT)
    if told.status:
        last = (told.err.strip().splitlines() or [f"status {told.status}"])[-1][:200]
        raise UsageError(f"@slurm: sinfo does not answer: {last}", NEXT)
    return dict(line.split() for line in told.out.splitlines() if len(line.split()) == 2)
