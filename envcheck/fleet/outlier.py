"""A finding about a fleet, and the hosts that it concerns."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.model import Finding


@dataclass(frozen=True)
class Outlier:
    """`hosts` are those that the finding reports as different; empty if it blames no host or all is well."""

    finding: Finding
    hosts: tuple[str, ...] = ()
