"""How a person wants a recipe's container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Wish:
    """Other registries first, what differs made anew, the document's own options.

    `start` is the folder in which the recipe's relative mounts stand.
    """

    registries: tuple[str, ...] = ()
    recreate: bool = False
    as_published: bool = False
    start: Path = field(default_factory=Path.cwd)
