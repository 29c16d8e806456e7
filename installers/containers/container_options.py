"""How a person wants a recipe's container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from installers.containers.spec_from_recipe import Mode
from installers.seeds.seed import Seed


@dataclass(frozen=True)
class Wish:
    """Other registries first, what differs made anew, no more rights than listed.

    `start` is the folder in which the recipe's relative mounts stand; `seed` is a host that passes the image on.
    """

    registries: tuple[str, ...] = ()
    recreate: bool = False
    mode: Mode = Mode.DOCUMENT
    start: Path = field(default_factory=Path.cwd)
    seed: Seed | None = None
