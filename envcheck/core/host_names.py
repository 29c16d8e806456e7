"""Compact lists of host names, by ClusterShell, which is imported only when needed."""

from __future__ import annotations

from collections.abc import Iterable


def fold_hosts(names: Iterable[str]) -> str:
    """Return node01, node02 and node03 as node[01-03]; names that are not host names are listed unchanged."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    listed = list(names)
    try:
        return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(listed)
