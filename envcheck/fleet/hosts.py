"""Which hosts: ClusterShell's node sets and groups, a file of them, and exclusions.  The library is imported late."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.errors import UsageError

if TYPE_CHECKING:
    from ClusterShell.NodeSet import NodeSet

HOSTS_LIMIT, FILE_LIMIT = 100_000, 4 << 20
NEXT = "write them as node[01-08], node1,node2 or @group; nodeset -e shows what such a set holds"
# A name that begins with "-" would be an option to ssh; users and ports stand in ssh's own configuration.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}")
# ClusterShell puts a group's name into a line for the shell, as it stands; a list of hosts may be a stranger's.
_SHELL = re.compile(r"""[\s$`'"\\;|<>(){}#~]""")

# node[01-08,10]-[1-2], among others: the words of a set, and the ranges of a word.
_WORD, _RANGES = re.compile(r"(?:[^\s,!&^\[]|\[[^\]]*\]?)+"), re.compile(r"\[([^\]]*)")


def chosen(sets: Iterable[str], hostfile: str | None = None, exclude: Iterable[str] = ()) -> list[str]:
    """The hosts' names, each once, in the order of node sets; UsageError for what is none, or nobody."""
    wanted, without = [*sets, *(_listed(hostfile) if hostfile else ())], list(exclude)
    found = _set(wanted)
    for text in without:
        found.difference_update(_set([text]))
    if not found:
        raise UsageError("these host sets hold no host", NEXT)
    names = [str(name) for name in found]
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is no host's name", NEXT)
    return names


def _set(texts: Iterable[str]) -> NodeSet:
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupResolverSourceError

    from envcheck.fleet import groups

    found, known = NodeSet(), groups.resolver()
    for text in texts:
        try:
            if "@" in text and _SHELL.search(text):
                raise NodeSetException("no group has such a name")
            most = _most(text)
            if most <= HOSTS_LIMIT:
                found.update(NodeSet(text, resolver=known))
                most = len(found)
            if most > HOSTS_LIMIT:
                raise UsageError(f"{text[:80]!r} makes more than {HOSTS_LIMIT} hosts", "ask a part of them at a time")
        except GroupResolverSourceError as err:
            named = f"ClusterShell has no groups called {err} here"
            raise _none(text, "ClusterShell has no groups here" if str(err).startswith("<") else named) from None
        except (NodeSetException, GroupResolverError) as err:
            raise _none(text, str(err)) from None
    return found


def _most(text: str) -> int:
    """How many hosts it can mean, told before they are all made: that of a thousand million takes minutes."""
    return sum(math.prod(map(_counted, _RANGES.findall(word))) for word in _WORD.findall(text))


def _counted(ranges: str) -> int:
    count = 0
    for part in ranges.split(","):
        ends, _, step = part.partition("/")
        first, _, last = ends.partition("-")
        if len(ends) > 40:
            return HOSTS_LIMIT + 1
        whole = first.isdecimal() and last.isdecimal()
        by = int(step[:9]) if step.isdecimal() else 1
        count += max(1, (int(last) - int(first)) // max(1, by) + 1) if whole else 1
    return count


def _none(text: str, why: str) -> UsageError:
    return UsageError(f"{text[:80]!r} is no set of hosts: {why[:120]}", NEXT)


def _listed(path: str) -> list[str]:
    """One set a line, as clush --hostfile reads them; # begins a comment, and what follows a name (slots=8) is left."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            text = file.read(FILE_LIMIT + 1)
    except OSError as err:
        raise UsageError(f"cannot read {path}: {err.strerror}", "give --hostfile a list of hosts") from None
    if len(text) > FILE_LIMIT:
        raise UsageError(f"{path} is larger than {FILE_LIMIT >> 20} MiB, which no list of hosts is", NEXT)
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words]
