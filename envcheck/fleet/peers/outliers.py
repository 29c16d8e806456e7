"""Helpers to build findings between hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envcheck.core.findings import format_ranges
from envcheck.core.messages import NOTHING, Message, _, mark, ngettext
from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet.outlier import Outlier

# Messages of the agent, which runs without envcheck and cannot translate them.
OF_AGENTS = (mark("timed out"), mark("another program uses this port"), mark("connection closed by the peer"))
NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status


def make_outlier(name: str, grade: Status, seen: Message, remedy: Remedy | None, hosts: Iterable[str] = ()) -> Outlier:
    """Return the finding fleet.NAME about these hosts."""
    return Outlier(Finding(f"fleet.{name}", grade, seen, remedy, (), "tried between the hosts"), tuple(hosts))


def make_passed(name: str, seen: Message) -> Outlier:
    """Return the finding that a test passed."""
    return make_outlier(name, OK, seen, None)


def format_ports(ports: Iterable[int]) -> Message:
    """Return "port 1" or "ports 1-3"."""
    listed = sorted(ports)
    return ngettext("port {ports}", "ports {ports}", len(listed), ports=format_ranges(listed))


def format_more(listed: Sequence[object], shown: int = 1) -> Message:
    """Return " and 3 more" if more than `shown` items are listed, else ""."""
    return _(" and {more} more", more=len(listed) - shown) if len(listed) > shown else NOTHING
