"""Counts on real ranks: torchrun starts a program of this folder, which writes the counts of each rank."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[3]
Counted = TypeVar("Counted")


def count_on_ranks(
    program: Path, packages: tuple[Path, Path], cases: Sequence[Mapping[str, Any]], folder: Path, **variables: str
) -> list[tuple[Any, ...]]:
    """Return the counts of the ranks for each case.

    `packages`: the environment, and a folder with the framework that is counted.  All cases have as many ranks as the
    first one says, 2 by default.
    """
    environment, framework = packages
    (folder / "cases.json").write_text(json.dumps(cases))
    ranks = int(cases[0].get("ranks", 2))
    argv = [str(environment / "bin" / "torchrun"), "--standalone", "--nproc-per-node", str(ranks)]
    path = os.pathsep.join((str(ROOT), str(framework)))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables}
    argv += [str(program), str(folder / "cases.json"), str(folder)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(zip(*(json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)), strict=True))


def count_by_group(
    list_group: Callable[[str], Sequence[str]], count: Callable[[Sequence[str]], Sequence[Counted]]
) -> Callable[[str], Counted]:
    """Return the function that counts a case, together with its group the first time."""
    found: dict[str, Counted] = {}

    def count_case(name: str) -> Counted:
        if name not in found:
            group = list_group(name)
            found.update(zip(group, count(group), strict=True))
        return found[name]

    return count_case
