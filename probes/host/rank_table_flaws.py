"""What is wrong with a table of ranks, whatever machines it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from envcheck.core.findings import ranges
from probes.host.network_schemas import RankTable


def find_flaws(table: RankTable) -> Iterator[str]:
    """A sentence for each."""
    if table.count is not None and table.count != len(table.servers):
        yield f"server_count is {table.count}, and {len(table.servers)} are listed"
    ranks, wanted = [c.rank for c in table.cards], set(range(len(table.cards)))
    if not ranks:
        yield "it lists no card"
    elif set(ranks) != wanted:
        missing = ranges(sorted(wanted - set(ranks)))
        yield f"ranks should be 0 to {len(ranks) - 1}, each once, and lack {missing}"
    if twice := _twice(c.address for c in table.cards):
        yield f"device_ip {twice} stands there twice"
    if twice := _twice(table.servers):
        yield f"server_id {twice} stands there twice"
    if any(c.device is None for c in table.cards):
        yield "a device_id is missing or no number"


def _twice(values: Iterable[str | None]) -> str | None:
    return next((value for value, n in Counter(v for v in values if v).items() if n > 1), None)
