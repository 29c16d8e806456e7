"""How a person wants a recipe's container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from installers.seeds.seed import Seed


@dataclass(frozen=True)
class Wish:
    """Other registries first, what differs made anew, the document's own options.

    `start` is the folder in which the recipe's relative mounts stand; `seed` is a host that passes the image on.
    """

    registries: tuple[str, ...] = ()
    recreate: bool = False
    as_published: bool = False
    start: Path = field(default_factory=Path.cwd)
    seed: Seed | None = None
