"""Many host names as one word, by ClusterShell, which is imported late."""

from __future__ import annotations

from collections.abc import Iterable


def fold_hosts(names: Iterable[str]) -> str:
    """node01, node02 and node03 as node[01-03]; what is no host name (a file's name) is listed as it is."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    listed = list(names)
    try:
        return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(listed)
