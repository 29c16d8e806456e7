"""What `envcheck train` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line; None is "not said"."""

    model: str | None = None
    method: str | None = None
    device: str = "auto"
    framework: str | None = None
    recipe: str | None = None
    variant: str | None = None
    node_role: str | None = None
    cards: int | None = None
    nnodes: int | None = None
    rank: int | None = None
    master: str | None = None
    host: str | None = None
    settings: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    recipes: Path | None = None
    into: Path | None = None
    runs: Path = Path("runs")
    data: Path | None = None
    steps: int | None = None
    port: int | None = None
    deadline_s: float | None = None
    provision: bool = False
    yes: bool = False
    as_json: bool = False
    detach: bool = False
    gather_s: float = 600.0
    interfaces: str | None = None  # the network interface of `host`
    found: tuple[str, ...] = ()  # what nobody said and this machine told
    no_stop: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    watch: bool = False
    waive: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    gates: bool = False
