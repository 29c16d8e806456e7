"""Collect the facts of this machine that jobs are resolved with, once per command."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envcheck import settings
from envcheck.collect import answer_sources, facts
from envcheck.collect.host import installed
from envcheck.core import paths
from envcheck.core.facts import Facts, Packages
from envcheck.job.request import JobRequest
from envcheck.vendors import VENDORS
from probes.host import decode

STATE_LIMIT = 1 << 20  # characters; ours hold a few thousand


def collect_facts_here(request: JobRequest) -> Facts:
    """Return the facts of this (or the simulated) machine, with the site's thresholds."""
    local = replace(
        facts.gather_facts(answer_sources.local_machine(), request.device),
        thresholds=settings.load_settings().thresholds,
    )
    return add_job_places(local, request)


def add_job_places(found: Facts, request: JobRequest) -> Facts:
    """Return the facts with the environments and containers in which jobs run."""
    environments = {**found.environments, **_read_environment(request.into)}
    return replace(
        found,
        environments=environments,
        environment=_add_visible_lists(found.environment),
        published_containers=_read_published_containers(),
        container_cards=_read_container_cards(),
    )


def _add_visible_lists(environment: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Add the caller's lists of visible devices: a simulated machine has variables of its own."""
    names = {vendor.visible_env for vendor in VENDORS.values() if vendor.visible_env}
    own = {name: os.environ[name] for name in names if name in os.environ}
    return {**(environment or {}), **own} if own else environment


def read_architecture(facts: Facts) -> str:
    """Return the machine's architecture as `uname -m` prints it."""
    return (facts.host.architecture if facts.host else None) or platform.machine()


def collect_environments_here(request: JobRequest) -> Facts:
    """Return facts with the installed job environments only, for a job that runs on other machines."""
    own = {
        folder.name: packages for folder in _environment_folders() for packages in _read_environment(folder).values()
    }
    return Facts(environments={**own, **_read_environment(request.into)})


def _environment_folders() -> list[Path]:
    root = paths.environment_folder("recipe").parent
    return sorted(root.iterdir()) if root.is_dir() else []


def _read_published_containers() -> tuple[str, ...]:
    """Return the recipes whose container was created as published, from provision's state files."""
    return tuple(folder.name for folder in _environment_folders() if _is_as_published(folder))


def _is_as_published(folder: Path) -> bool:
    return _read_state(folder).get("as_published") is True


def _read_container_cards() -> dict[str, tuple[int, ...]]:
    """Return the cards of the recipes' containers, from provision's state files."""
    found = {}
    for folder in _environment_folders():
        cards = _read_state(folder).get("cards")
        if isinstance(cards, list) and cards and all(type(number) is int for number in cards):
            found[folder.name] = tuple(cards)
    return found


def _read_state(folder: Path) -> dict[str, object]:
    try:
        with (folder / ".envcheck" / "state.json").open(encoding="utf-8") as file:
            state = json.loads(file.read(STATE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def _read_environment(folder: Path | None) -> Mapping[str, Packages]:
    """Return the packages of a virtual environment by its absolute path; empty if it does not exist."""
    path = folder.expanduser().absolute() if folder else None
    if path is None or not (path / "bin").is_dir():
        return {}
    found = decode.decode_packages(installed.inspect_environment(path))
    return {str(path): found} if found else {}
