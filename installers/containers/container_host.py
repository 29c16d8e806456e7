"""Asks the host what decides about a container: the kinds of its paths, by the machine's questions."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from envcheck.collect.machine import Machine, ask_all
from envcheck.core.model import Question
from envcheck.job.container import JobContainer
from installers.containers.host_paths import PathKind


def observe(found: JobContainer, machine: Machine) -> dict[str, PathKind]:
    """Of the container's sources and device nodes those that are there.  The user's own folders are on the real disk
    also where `machine` is a simulated one."""
    sources = [mount.source for mount in found.spec.mounts if mount.source not in found.own_folders]
    asked = [*sources, *(device.split(":")[0] for device in found.spec.devices)]
    return {**_kinds(machine, asked), **_own(found.own_folders)}


def _kinds(machine: Machine, paths: list[str]) -> dict[str, PathKind]:
    """A pattern that ends with a slash lists folders alone."""
    questions = {path: (_list(glob.escape(path)), _list(glob.escape(path) + "/")) for path in paths}
    answers = ask_all(machine, [question for pair in questions.values() for question in pair])
    return {
        path: PathKind.FOLDER if answers[folder.key].ok else PathKind.FILE
        for path, (any_kind, folder) in questions.items()
        if answers[any_kind.key].ok
    }


def _own(paths: Iterable[str]) -> dict[str, PathKind]:
    return {path: PathKind.FOLDER if Path(path).is_dir() else PathKind.FILE for path in paths if Path(path).exists()}


def _list(pattern: str) -> Question:
    return Question("list", (pattern,), 5.0)
