"""A request for a job: which one, and with which options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envcheck.core.lint.own_job import OwnJob


@dataclass(frozen=True)
class JobRequest:
    """A job as given on the command line; None means "not given".

    `may_choose`: of several matching jobs, take the one that this machine can run best, instead of raising an error.
    `into`: a virtual environment to run in.  `interfaces`: the network interface of `host`.  `found`: names of fields
    that were detected on this machine, not given.  `added_settings`: NAME=VALUE that envcheck adds to `settings`.
    `as_published`: the container has the options of the published document.  `devices` are the cards: numbers of the
    vendor's tool, UUIDs, or "auto".  `own_job`: a job of the user's own, instead of a recipe's.
    """

    model: str | None = None
    method: str | None = None
    device: str = "auto"
    framework: str | None = None
    recipe: str | None = None
    variant: str | None = None
    node_role: str | None = None
    cards: int | None = None
    devices: str | None = None
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
    added_settings: tuple[str, ...] = ()
    own_job: OwnJob | None = None
