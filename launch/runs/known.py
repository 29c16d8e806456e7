"""Which runs there are: the records below the folders that trainings were started with."""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from envcheck.core import paths
from envcheck.core.errors import UsageError
from launch.run import process_tree
from launch.run.record import NAME
from launch.runs import backends
from launch.runs.run_state import LOST, ORPHANED, Run

LIMIT = 64 << 20  # bytes of a record; a run of 200,000 steps has 4 MB
FOLDERS = 1000
KEPT_S = 1.0  # a look at all processes is as good as new for so long


def remember(runs: Path) -> None:
    """So that a run is found from wherever one asks.  Not being able to write it down ends nothing.

    A node's part of a job is found with the job, in whose folder it lies.
    """
    with contextlib.suppress(OSError):
        if not (runs.parent / NAME).is_file() and str(runs) not in _index():
            paths.home().mkdir(parents=True, exist_ok=True)
            with _file().open("a", encoding="utf-8") as file:
                file.write(f"{runs}\n")


def _file() -> Path:
    return paths.home() / "runs.txt"


def _index() -> list[str]:
    try:
        return [line for line in _file().read_text("utf-8").splitlines() if line][-FOLDERS:]
    except (OSError, UnicodeDecodeError):
        return []


def every(runs: Path | None) -> tuple[Run, ...]:
    """Newest first: of that folder, or of all that are known and ./runs."""
    found = (run for folder in _inside(runs) if (run := read(folder)) is not None)
    return tuple(sorted(found, key=lambda run: (run.text("started"), run.id), reverse=True))


def unreadable(runs: Path | None) -> tuple[Path, ...]:
    """The records among them that are cut off, too large, may not be read, or are none of ours."""
    records = (folder / NAME for folder in _inside(runs))
    return tuple(path for path in records if os.access(path, os.F_OK) and _record(path.parent) is None)


def _inside(runs: Path | None) -> Iterable[Path]:
    for folder in dict.fromkeys([runs] if runs else [*map(Path, _index()), Path("runs").absolute()]):
        with contextlib.suppress(OSError):
            yield from sorted(folder.iterdir())


def read(folder: Path) -> Run | None:
    """None where no record of ours lies.  A run may end between two looks: at its record, then at its process."""
    said = _record(folder)
    if said is None:
        return None
    if scheduler := backends.find_scheduler(said):
        return scheduler.read(folder, said)
    pid = _alive(said)
    if said["state"] == "running" and pid is None:
        said = _record(folder) or said
    state = said["state"]
    if state == "running" and pid is None:
        state = ORPHANED if find_mark(folder, said) else LOST
    return Run(folder, state, pid, said)


def find_mark(folder: Path, said: Mapping[str, Any]) -> str:
    """The mark of the run's processes that live, "" for none; in a container its folder has another path."""
    marks = _living_marks(int(time.monotonic() / KEPT_S))
    boxed = isinstance(said.get("container"), str)
    return next((mark for mark in marks if mark == str(folder) or (boxed and Path(mark).name == folder.name)), "")


@functools.lru_cache(maxsize=1)
def _living_marks(_moment: int) -> tuple[str, ...]:
    return tuple(process_tree.living_marks())


def _record(folder: Path) -> dict[str, Any] | None:
    path = folder / NAME
    try:
        if not path.is_file() or path.stat().st_size > LIMIT:
            return None
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and isinstance(said.get("state"), str) else None


def _alive(said: dict[str, Any]) -> int | None:
    """The process that the record names, if it is that one still: numbers are given out again."""
    pid, began = said.get("pid"), said.get("pid_began")
    if not isinstance(pid, int) or isinstance(pid, bool) or not isinstance(began, (int, float)):
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - began) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return None
    return pid if same else None


def find(name: str, runs: Path | None) -> Run:
    """By its id, the beginning of one that means a single run, "latest", or its folder."""
    if "/" in name or name in (".", ".."):
        if found := read(Path(name).expanduser().absolute()):
            return found
        raise UsageError(f"{name} holds no run", "envcheck runs lists those that there are")
    known = every(runs)
    if not known:
        raise UsageError("there is no run yet", "envcheck train starts one; --runs DIR names where they stand")
    if name == "latest":
        return known[0]
    exact = [run for run in known if run.id == name] or [run for run in known if run.id.startswith(name)]
    if len(exact) == 1:
        return exact[0]
    if exact:
        ids = {run.id for run in exact}
        which = sorted(ids if len(ids) == len(exact) else (str(run.folder) for run in exact))  # one second, two folders
        raise UsageError(f"{name} means {len(exact)} runs", f"say which: {', '.join(which[:5])}")
    near = difflib.get_close_matches(name, [run.id for run in known], 3, 0.4)
    others = f"near it: {', '.join(near)}" if near else f"the newest: {known[0].id}"
    raise UsageError(f"there is no run {name[:100]!r}", f"{others}; envcheck runs lists all")
