"""The user's options for a recipe's container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ContainerOptions:
    """`registries` are tried first; `recreate`: replace a container that differs; `as_published`: use the options of
    the published document.  `start` is the base folder of the recipe's relative mounts.  `cards` are the device node
    numbers that it gets; empty: those of all jobs of the recipe.
    """

    registries: tuple[str, ...] = ()
    recreate: bool = False
    as_published: bool = False
    cards: tuple[int, ...] = ()
    start: Path = field(default_factory=Path.cwd)
