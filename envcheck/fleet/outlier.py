"""What is told of a fleet and not of one of its hosts, with the hosts that it is about."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.model import Finding


@dataclass(frozen=True)
class Odd:
    """`hosts` are those that the finding names as different; none where it names no side, or all is well."""

    finding: Finding
    hosts: tuple[str, ...] = ()
