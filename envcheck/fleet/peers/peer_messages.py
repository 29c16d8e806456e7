"""What the findings between hosts are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envcheck.core.findings import ranges
from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet.outlier import Odd

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status


def odd(name: str, grade: Status, seen: str, words: str, hosts: Iterable[str] = (), *commands: str) -> Odd:
    remedy = Remedy(words, commands) if words else None
    return Odd(Finding(f"fleet.{name}", grade, seen, remedy, (), "tried between the hosts"), tuple(hosts))


def fine(name: str, seen: str) -> Odd:
    return odd(name, OK, seen, "")


def ports_told(ports: Iterable[int]) -> str:
    listed = sorted(ports)
    return f"{'port' if len(listed) == 1 else 'ports'} {ranges(listed)}"


def more(listed: Sequence[object], shown: int = 1) -> str:
    return f" and {len(listed) - shown} more" if len(listed) > shown else ""
