"""Resolve @groups in host sets: ClusterShell's groups, and partitions of the site's Slurm.  Imported late."""

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
from envcheck.core.messages import _
from envcheck.core.process import run_command

SINFO = ("sinfo", "--noheader", "--format=%R %N")
NEXT = _("list the hosts as node[01-08]; sinfo lists Slurm's nodes and partitions")
TIMEOUT_S = 30.0
# Files in a ClusterShell configuration folder that define groups (groups.conf(5)).
FILES = ("groups", "groups.conf", "groups.conf.d/*.conf", "groups.d/*.cfg", "groups.d/*.yaml")


class SlurmPartitions(GroupSource):
    """Group source of @slurm:NAME; runs sinfo at the first lookup."""

    def resolv_map(self, group: str) -> str:
        """Return the nodes of the partition; UsageError if it does not exist."""
        found = list_partitions()
        if group not in found:
            raise UsageError(
                _(
                    "unknown Slurm partition {group}; available: {found}",
                    group=group[:80],
                    found=", ".join(found)[:200] or _("none"),
                ),
                NEXT,
            )
        return found[group]

    def resolv_list(self) -> list[str]:
        """Return the names of the partitions."""
        return list(list_partitions())

    def resolv_all(self) -> str:
        """Return the nodes of all partitions."""
        return ",".join(list_partitions().values())


def make_resolver() -> GroupResolver:
    """Return a resolver of the user's groups, plus the site's Slurm unless they have a source named slurm."""
    brought = dict(_list_installed_files())
    paths = [path for path in DEF_GROUPS_CONFIGS if not has_only_examples(Path(path).parent, brought)]
    found = GroupResolverConfig(paths, ILLEGAL_GROUP_CHARS)
    with contextlib.suppress(ValueError):  # a source of that name exists
        found.add_source(SlurmPartitions("slurm"))
    return found


def has_only_examples(folder: Path, brought: dict[Path, str]) -> bool:
    """Return whether the folder has only the examples that pip installs with ClusterShell.

    Those would hide the groups in /etc, and make @gpu mean hosts example156 to example159.
    """
    files = [path.resolve() for pattern in FILES for path in folder.glob(pattern)]
    return bool(files) and all(brought.get(path) == _hash_file(path) for path in files)


def _list_installed_files() -> Iterator[tuple[Path, str]]:
    """Yield the files that pip installed outside the library, with their recorded hashes."""
    try:
        listed = metadata.files("ClusterShell") or []
    except metadata.PackageNotFoundError:
        return
    for file in listed:
        if "clustershell" in file.parts and file.hash:
            yield Path(str(file.locate())).resolve(), file.hash.value


def _hash_file(path: Path) -> str:
    """Return the file's hash as in pip's RECORD."""
    try:
        digest = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@functools.cache
def list_partitions() -> dict[str, str]:
    """Return each partition's nodes from sinfo's output, such as `npu node[01-08]`; a name alone if it has none."""
    result = run_command(SINFO, timeout_s=TIMEOUT_S)
    if result.absent:
        raise UsageError(_("@slurm: sinfo not found on this machine"), NEXT)
    if result.status:
        lines = result.err.strip().splitlines()
        last = lines[-1][:200] if lines else _("exit code {status}", status=result.status)
        raise UsageError(_("@slurm: sinfo failed: {last}", last=last), NEXT)
    return dict(line.split() for line in result.out.splitlines() if len(line.split()) == 2)
