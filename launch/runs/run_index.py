"""Find runs: records below all folders that trainings used."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core import paths, suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from launch.run import container_orphan, host_training, process_tree
from launch.run.record import NAME
from launch.run.states import ACTIVE, FAILED, LOST, ORPHANED, SUCCEEDED, UNKNOWN, upgrade_record
from launch.runs import backends
from launch.runs.run_state import Run

LIMIT = 64 << 20  # bytes of a record; a run of 200,000 steps has 4 MB
FOLDERS = 1000
CONTAINER_STATES = {True: ORPHANED, False: LOST, None: UNKNOWN}
KEPT_S = 1.0  # seconds for which a scan of all processes is reused


def remember_folder(runs: Path) -> None:
    """Add the folder to the index, so that its runs are found from any directory; errors are ignored.

    The folder of a node in a scheduler's job is omitted: the job's folder contains it.
    """
    with contextlib.suppress(OSError):
        if not (runs.parent / NAME).is_file() and str(runs) not in _read_index():
            paths.envcheck_home().mkdir(parents=True, exist_ok=True)
            with _index_path().open("a", encoding="utf-8") as file:
                file.write(f"{runs}\n")


def _index_path() -> Path:
    return paths.envcheck_home() / "runs.txt"


def _read_index() -> list[str]:
    try:
        return [line for line in _index_path().read_text("utf-8").splitlines() if line][-FOLDERS:]
    except (OSError, UnicodeDecodeError):
        return []


def list_runs(runs: Path | None) -> tuple[Run, ...]:
    """Return the runs in the folder, or in all known folders and ./runs; newest first."""
    found = (run for folder in _list_folders(runs) if (run := read_run(folder)) is not None)
    return tuple(sorted(found, key=lambda run: (run.get_text("started"), run.id), reverse=True))


def list_unreadable(runs: Path | None) -> tuple[Path, ...]:
    """Return the paths of records that are invalid, too large or not readable."""
    records = (folder / NAME for folder in _list_folders(runs))
    return tuple(path for path in records if os.access(path, os.F_OK) and _read_record(path.parent) is None)


def _list_folders(runs: Path | None) -> Iterable[Path]:
    for folder in dict.fromkeys([runs] if runs else [*map(Path, _read_index()), Path("runs").absolute()]):
        with contextlib.suppress(OSError):
            yield from sorted(folder.iterdir())


def read_run(folder: Path) -> Run | None:
    """Return the run in the folder, None without a valid record; re-reads the record if the process has just ended."""
    said = _read_record(folder)
    if said is None:
        return None
    if scheduler := backends.find_scheduler(said):
        return scheduler.read_run(folder, said)
    watcher = process_tree.find_process(said.get("pid"), said.get("pid_started"))
    if said["state"] in ACTIVE and watcher is None:
        said = _read_record(folder) or said
    state = said["state"]
    if state in ACTIVE and watcher is None:
        state = _judge_unsupervised(folder, said)
    return Run(folder, state, watcher.pid if watcher else None, said)


def _judge_unsupervised(folder: Path, said: Mapping[str, Any]) -> str:
    """Return the state of a run that is recorded as active, but whose supervisor does not run on this host."""
    if said.get("host") not in (None, socket.gethostname()):
        return UNKNOWN
    if host_training.find_shim(said) or find_mark(folder, said):
        return ORPHANED
    if isinstance(said.get("container"), str):
        return CONTAINER_STATES[container_orphan.is_training_alive(folder, said)]
    if not _is_own_file(folder / NAME):
        return UNKNOWN
    status = host_training.read_status(folder)
    return LOST if status is None else FAILED if status else SUCCEEDED


def _is_own_file(path: Path) -> bool:
    """Whether this user could see the processes of the file's owner."""
    try:
        return os.geteuid() in (0, path.stat().st_uid)
    except OSError:
        return True


def find_mark(folder: Path, said: Mapping[str, Any]) -> str:
    """Return the mark of the run's living processes, "" for none; in a container it has another path."""
    marks = _living_marks(int(time.monotonic() / KEPT_S))
    boxed = isinstance(said.get("container"), str)
    return next((mark for mark in marks if mark == str(folder) or (boxed and Path(mark).name == folder.name)), "")


@functools.lru_cache(maxsize=1)
def _living_marks(_moment: int) -> tuple[str, ...]:
    return tuple(process_tree.living_marks())


def _read_record(folder: Path) -> dict[str, Any] | None:
    path = folder / NAME
    try:
        if not path.is_file() or path.stat().st_size > LIMIT:
            return None
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return upgrade_record(said) if isinstance(said, dict) and isinstance(said.get("state"), str) else None


def find_run(name: str, runs: Path | None) -> Run:
    """Return a run by its id, a unique beginning of it, "latest" or its folder; UsageError if there is none."""
    if "/" in name or name in (".", ".."):
        if found := read_run(Path(name).expanduser().absolute()):
            return found
        raise UsageError(_("{name} contains no run", name=name), _("list the runs with `envcheck runs`"))
    known = list_runs(runs)
    if not known:
        raise UsageError(
            _("no runs found"),
            _(
                "start one, for example: envcheck train --model tiny --method lora --provision; "
                "or set the folder of the runs with --runs DIR"
            ),
        )
    if name == "latest":
        return known[0]
    exact = [run for run in known if run.id == name] or [run for run in known if run.id.startswith(name)]
    if len(exact) == 1:
        return exact[0]
    if exact:
        ids = {run.id for run in exact}
        which = sorted(
            ids if len(ids) == len(exact) else (str(run.folder) for run in exact)
        )  # equal ids in different folders
        raise UsageError(
            _("{name} matches {count} runs", name=name, count=len(exact)),
            _("specify one: {which}", which=join(", ", which[:5])),
        )
    near = suggestions.find_nearest(name, [run.id for run in known], 3, 0.4)
    others = _("similar: {near}", near=join(", ", near)) if near else _("newest: {id}", id=known[0].id)
    raise UsageError(
        _("unknown run {name!r}", name=name[:100]), _("{others}; list all runs with `envcheck runs`", others=others)
    )
