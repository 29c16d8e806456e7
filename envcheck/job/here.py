"""The facts of this machine that a job is resolved with: gathered once for a command, the same for all commands."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envcheck import settings
from envcheck.collect import facts, machine
from envcheck.collect.host import installed
from envcheck.core import paths
from envcheck.core.facts import Facts, Packages
from envcheck.job.request import JobRequest
from probes.host import decode

STATE_LIMIT = 1 << 20  # characters; ours hold a few thousand


def collect_facts_here(request: JobRequest) -> Facts:
    """Of this machine, or of the simulated one that stands in its place, with the site's thresholds."""
    found = replace(facts.gather(machine.here(), request.device), thresholds=settings.load().thresholds)
    return add_own_places(found, request)


def add_own_places(found: Facts, request: JobRequest) -> Facts:
    """The facts of this machine, with what is known of the places where its jobs run."""
    environments = {**found.environments, **_read_environment(request.into)}
    return replace(found, environments=environments, published_containers=_read_published_containers())


def read_architecture(facts: Facts) -> str:
    """The machine's, as `uname -m` has it."""
    return (facts.host.architecture if facts.host else None) or platform.machine()


def collect_environments_here(request: JobRequest) -> Facts:
    """What is installed for jobs, and nothing of the machine: for a job that runs on others."""
    made = {
        folder.name: packages for folder in _environment_folders() for packages in _read_environment(folder).values()
    }
    return Facts(environments={**made, **_read_environment(request.into)})


def _environment_folders() -> list[Path]:
    root = paths.environment_folder("recipe").parent
    return sorted(root.iterdir()) if root.is_dir() else []


def _read_published_containers() -> tuple[str, ...]:
    """By what provision keeps in an environment's folder (installers.state.state_file)."""
    return tuple(folder.name for folder in _environment_folders() if _is_as_published(folder))


def _is_as_published(folder: Path) -> bool:
    try:
        with (folder / ".envcheck" / "state.json").open(encoding="utf-8") as file:
            state = json.loads(file.read(STATE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(state, dict) and state.get("as_published") is True


def _read_environment(folder: Path | None) -> Mapping[str, Packages]:
    """By the folder's whole path."""
    path = folder.expanduser().absolute() if folder else None
    if path is None or not (path / "bin").is_dir():
        return {}
    found = decode.packages(installed.of_environment(path))
    return {str(path): found} if found else {}
