"""Validates a rank table, independent of the hosts that it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from envcheck.core.findings import format_ranges
from envcheck.core.messages import Message, _
from probes.host.network_schemas import RankTable


def find_rank_table_errors(table: RankTable) -> Iterator[Message]:
    """Yield a message for each error in the table."""
    if table.count is not None and table.count != len(table.servers):
        yield _(
            "server_count is {count}, but {listed} servers are listed",
            count=table.count,
            listed=len(table.servers),
        )
    ranks, wanted = [c.rank for c in table.cards], set(range(len(table.cards)))
    if not ranks:
        yield _("no cards listed")
    elif set(ranks) != wanted:
        missing = format_ranges(sorted(wanted - set(ranks)))
        yield _(
            "ranks must be 0 to {last}, each once; missing: {missing}",
            last=len(ranks) - 1,
            missing=missing,
        )
    if twice := _find_duplicate(c.address for c in table.cards):
        yield _("duplicate device_ip {value}", value=twice)
    if twice := _find_duplicate(table.servers):
        yield _("duplicate server_id {value}", value=twice)
    if any(c.device is None for c in table.cards):
        yield _("a device_id is missing or not a number")


def _find_duplicate(values: Iterable[str | None]) -> str | None:
    return next((value for value, n in Counter(v for v in values if v).items() if n > 1), None)
