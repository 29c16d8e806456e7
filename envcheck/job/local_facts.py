"""Collect the facts of this machine that jobs are resolved with, once per command."""

from __future__ import annotations

import json
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
    return replace(found, environments=environments, published_containers=_read_published_containers())


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
    try:
        with (folder / ".envcheck" / "state.json").open(encoding="utf-8") as file:
            state = json.loads(file.read(STATE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(state, dict) and state.get("as_published") is True


def _read_environment(folder: Path | None) -> Mapping[str, Packages]:
    """Return the packages of a virtual environment by its absolute path; empty if it does not exist."""
    path = folder.expanduser().absolute() if folder else None
    if path is None or not (path / "bin").is_dir():
        return {}
    found = decode.decode_packages(installed.inspect_environment(path))
    return {str(path): found} if found else {}
