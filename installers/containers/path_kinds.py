"""Query the host for the kinds of the paths that a container uses."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from envcheck.collect.answer_sources import AnswerSource, ask_all
from envcheck.core.model import Question
from envcheck.job.container_privileges import JobContainer
from installers.containers.host_paths import PathKind


def observe_paths(found: JobContainer, machine: AnswerSource) -> dict[str, PathKind]:
    """Return the kinds of those mount sources and device nodes that exist.

    The user's own folders and the site's paths are looked up on the real disk even if `machine` is a simulated one.
    """
    real = {*found.own_folders, *found.spec.site_sources}
    sources = [mount.source for mount in found.spec.mounts if mount.source not in real]
    asked = [*sources, *(device.split(":")[0] for device in found.spec.devices)]
    return {**_ask_kinds(machine, asked), **_own_kinds(real)}


def _ask_kinds(machine: AnswerSource, paths: list[str]) -> dict[str, PathKind]:
    """A pattern that ends with a slash matches folders only."""
    questions = {path: (_list_question(glob.escape(path)), _list_question(glob.escape(path) + "/")) for path in paths}
    answers = ask_all(machine, [question for pair in questions.values() for question in pair])
    return {
        path: PathKind.FOLDER if answers[folder.key].ok else PathKind.FILE
        for path, (any_kind, folder) in questions.items()
        if answers[any_kind.key].ok
    }


def _own_kinds(paths: Iterable[str]) -> dict[str, PathKind]:
    # os.path: a name that is too long does not exist, which is an error for pathlib.
    found = [path for path in paths if os.path.exists(path)]  # noqa: PTH110
    return {path: PathKind.FOLDER if os.path.isdir(path) else PathKind.FILE for path in found}  # noqa: PTH112


def _list_question(pattern: str) -> Question:
    return Question("list", (pattern,), 5.0)
