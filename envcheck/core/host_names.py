"""Compact lists of host names, by ClusterShell, which is imported only when needed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from envcheck.core.messages import Message, _, verbatim

NAMES_LIMIT, SHOWN = 200, 8  # characters of a list for people; names of a longer list


def fold_hosts(names: Iterable[str]) -> str:
    """Return node01, node02 and node03 as node[01-03]; names that are not host names are listed unchanged."""
    return _fold_names(tuple(names))


def name_hosts(names: Iterable[str]) -> Message:
    """Return the folded names for people: of many names that do not fold, the first ones and how many there are."""
    listed = tuple(names)
    folded = _fold_names(listed)
    if len(folded) <= NAMES_LIMIT or len(listed) <= SHOWN:
        return verbatim(folded)
    return _("{shown} and {more} more", shown=_fold_names(listed[:SHOWN]), more=len(listed) - SHOWN)


@lru_cache(maxsize=64)  # a report names the same ten thousand hosts some twenty times
def _fold_names(names: tuple[str, ...]) -> str:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(names)
