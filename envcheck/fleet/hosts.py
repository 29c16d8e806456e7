"""Resolve host names from ClusterShell node sets and groups, a hosts file, and exclusions; imported late."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _

if TYPE_CHECKING:
    from ClusterShell.NodeSet import NodeSet

HOSTS_LIMIT, FILE_LIMIT = 100_000, 4 << 20
NEXT = _("use node[01-08], node1,node2 or @group; nodeset -e expands a host set")
# A name that starts with "-" would be an option of ssh; users and ports belong in ssh's configuration.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}")
# ClusterShell puts group names into a shell command unquoted, and a hosts file may come from another user.
_SHELL = re.compile(r"""[\s$`'"\\;|<>(){}#~]""")

# For example node[01-08,10]-[1-2]: the words of a set, and the ranges in a word.
_WORD, _RANGES = re.compile(r"(?:[^\s,!&^\[]|\[[^\]]*\]?)+"), re.compile(r"\[([^\]]*)")


def resolve_hosts(sets: Iterable[str], hostfile: str | None = None, exclude: Iterable[str] = ()) -> list[str]:
    """Return the host names, each once, in node-set order.  UsageError for an invalid or empty set."""
    wanted, without = [*sets, *(_read_hostfile(hostfile) if hostfile else ())], list(exclude)
    found = _parse_sets(wanted)
    for text in without:
        found.difference_update(_parse_sets([text]))
    if not found:
        raise UsageError(_("the host sets are empty"), NEXT)
    names = [str(name) for name in found]
    for name in names:
        if not _NAME.fullmatch(name) or name.count(":") == 1:  # two or more: an IPv6 address
            raise UsageError(_("{name!r} is not a valid host name", name=name[:80]), _advise_on_name(name))
    return names


def _advise_on_name(name: str) -> Message:
    """Return where ssh takes user and port from: `root@node1` and `node1:2222` are written for other tools."""
    found = re.fullmatch(r"(?:([\w.-]+)@)?([A-Za-z0-9_][\w.-]*)(?::(\d+))?", name, re.ASCII)
    if not found:
        return NEXT
    settings = [f"{word} {value}" for word, value in (("User", found[1]), ("Port", found[3])) if value]
    words = ", ".join([f"Host {found[2]}", *settings])
    return _("use {host}; user and port belong in ~/.ssh/config: {settings}", host=found[2], settings=words)


def _parse_sets(texts: Iterable[str]) -> NodeSet:
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupResolverSourceError

    from envcheck.fleet import groups

    found, known = NodeSet(), groups.make_resolver()
    for text in texts:
        try:
            if "@" in text and _SHELL.search(text):
                raise NodeSetException(_("unknown group"))
            most = _count_hosts(text)
            if most <= HOSTS_LIMIT:
                found.update(NodeSet(text, resolver=known))
                most = len(found)
            if most > HOSTS_LIMIT:
                raise UsageError(
                    _("{hosts!r}: more than {limit} hosts in total", hosts=text[:80], limit=HOSTS_LIMIT),
                    _("check a part of the hosts at a time"),
                )
        except GroupResolverSourceError as err:
            named = _("ClusterShell has no group source {err} on this machine", err=err)
            raise _describe_bad_set(
                text, _("ClusterShell has no groups configured on this machine") if str(err).startswith("<") else named
            ) from None
        except (NodeSetException, GroupResolverError) as err:
            raise _describe_bad_set(text, str(err)) from None
    return found


def _count_hosts(text: str) -> int:
    """Return how many hosts the text can mean, without expanding it: a thousand million names take minutes."""
    return sum(math.prod(map(_count_range, _RANGES.findall(word))) for word in _WORD.findall(text))


def _count_range(ranges: str) -> int:
    count = 0
    for part in ranges.split(","):
        ends, _unused, step = part.partition("/")
        first, _unused, last = ends.partition("-")
        if len(ends) > 40:
            return HOSTS_LIMIT + 1
        whole = first.isdecimal() and last.isdecimal()
        by = int(step[:9]) if step.isdecimal() else 1
        count += max(1, (int(last) - int(first)) // max(1, by) + 1) if whole else 1
    return count


def _describe_bad_set(text: str, why: str) -> UsageError:
    return UsageError(_("{hosts!r} is not a valid host set: {why}", hosts=text[:80], why=why[:120]), NEXT)


def _read_hostfile(path: str) -> list[str]:
    """Return one set per line, as clush --hostfile does; # starts a comment, and words after a name are ignored."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            text = file.read(FILE_LIMIT + 1)
    except OSError as err:
        raise UsageError(
            _("cannot read {path}: {strerror}", path=path, strerror=describe_os_error(err)),
            _("pass a list of hosts to --hostfile"),
        ) from None
    if len(text) > FILE_LIMIT:
        raise UsageError(
            _(
                "{path} is larger than {file_limit} MiB, too large for a list of hosts",
                path=path,
                file_limit=FILE_LIMIT >> 20,
            ),
            NEXT,
        )
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words]
