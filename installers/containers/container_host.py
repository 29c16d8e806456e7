"""Asks the host what decides about a container: paths and device nodes, by the machine's questions."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from pathlib import Path

from envcheck.collect.machine import Machine, ask_all
from envcheck.core.model import Question
from envcheck.vendors import VENDORS
from installers.containers.spec_from_recipe import ContainerHostFacts, PathKind, beside, own_sources
from installers.recipes.container_spec import as_written
from installers.recipes.recipe import Recipe


def observe(
    recipe: Recipe, folder: Path, machine: Machine, runtimes: Iterable[str] = (), cdi: Iterable[str] = ()
) -> ContainerHostFacts:
    """`folder` is the user's own, on the real disk also where `machine` is a simulated one; `runtimes` and `cdi` are
    what the engine says that it has (installers.images.engine)."""
    box = recipe.container
    if box is None:
        return ContainerHostFacts(str(folder))
    own = own_sources(box, str(folder))
    paths = [mount.source for mount in as_written(box, "", str(folder)).mounts if mount.source not in own]
    asked = [*paths, *map(beside, paths), *(device.split(":")[0] for device in box.devices)]
    pattern = VENDORS[recipe.device].node_pattern
    nodes = ask_all(machine, [_list(pattern)])[_list(pattern).key].out.split() if pattern else []
    return ContainerHostFacts(
        folder=str(folder),
        kinds={**_kinds(machine, asked), **_own(own)},
        nodes=tuple(sorted(nodes, key=_number)),
        runtimes=tuple(runtimes),
        cdi=tuple(cdi),
    )


def _kinds(machine: Machine, paths: list[str]) -> dict[str, PathKind]:
    """A pattern that ends with a slash lists folders alone."""
    questions = {path: (_list(glob.escape(path)), _list(glob.escape(path) + "/")) for path in paths}
    answers = ask_all(machine, [question for pair in questions.values() for question in pair])
    return {
        path: PathKind.FOLDER if answers[folder.key].ok else PathKind.FILE
        for path, (any_kind, folder) in questions.items()
        if answers[any_kind.key].ok
    }


def _own(paths: tuple[str, ...]) -> dict[str, PathKind]:
    return {path: PathKind.FOLDER if Path(path).is_dir() else PathKind.FILE for path in paths if Path(path).exists()}


def _number(path: str) -> int:
    found = re.search(r"(\d{1,9})$", path)
    return int(found[1]) if found else -1


def _list(pattern: str) -> Question:
    return Question("list", (pattern,), 5.0)
