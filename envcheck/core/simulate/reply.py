"""The replies of a simulated executable, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProgramReply:
    """Output, error output and exit status of one call."""

    out: str = ""
    err: str = ""
    status: int = 0


@dataclass(frozen=True)
class QueryColumn:
    """One field of --query-gpu: its header, and a value for each device."""

    heading: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SimulatedProgram:
    """An executable: replies by its complete arguments, else by their prefixes, the first that matches.

    `aliases` are further names of the executable. `listings` are the arguments whose output a broken connection
    truncates; `columns` answer --query-gpu.
    """

    name: str
    replies: Mapping[str, ProgramReply]
    otherwise: tuple[tuple[str, ProgramReply], ...]
    listings: tuple[str, ...] = ()
    columns: Mapping[str, QueryColumn] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    hang_s: int = 0
    truncated: bool = False
