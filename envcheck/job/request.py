"""What was asked for: which job, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class JobRequest:
    """A job as the command line names it; None is "not said".

    `may_choose`: where several jobs fit, the one that this machine can run best is meant; else that is an error.
    `into` is a virtual environment to run in; `interfaces` the network interface of `host`; `found` names the fields
    that nobody said and this machine told; `as_published`: the container has the published document's own options.
    """

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
    data: Path | None = None
    steps: int | None = None
    port: int | None = None
    interfaces: str | None = None
    found: tuple[str, ...] = ()
    as_published: bool = False
    may_choose: bool = False
