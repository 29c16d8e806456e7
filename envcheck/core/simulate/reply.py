"""What a simulated executable says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reply:
    out: str = ""
    err: str = ""
    status: int = 0


@dataclass(frozen=True)
class Column:
    """One field of --query-gpu: its heading, and a value for each device."""

    heading: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """An executable: replies by its arguments joined with a blank, else by how these begin, the first that fits.

    `listings` are the arguments whose answers a broken connection cuts; `columns` answer --query-gpu.
    """

    name: str
    replies: Mapping[str, Reply]
    otherwise: tuple[tuple[str, Reply], ...]
    listings: tuple[str, ...] = ()
    columns: Mapping[str, Column] = field(default_factory=dict)
    hang_s: int = 0
    truncated: bool = False
