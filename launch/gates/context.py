"""The input of the gates, collected before a start; the only module of the gates that accesses the machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import EnvcheckError, describe_os_error
from envcheck.core.facts import Facts
from envcheck.core.messages import NOTHING, Message
from envcheck.core.model import Finding
from envcheck.job.choose_cards import CardChoice
from envcheck.job.command import TrainingCommand
from installers.bundle import recipe_locks
from installers.locks.lockfile import Lock
from installers.recipes.recipe import Recipe, RecipeJob
from launch.planner import LaunchPlan
from launch.targets.stage import Stage, StageFacts


@dataclass(frozen=True)
class GateContext:
    """Everything that the gates need.

    `sight` are the facts collected on `stage`; `runs_error` and `port_error` are errors, None for success; `holder`
    describes the process that already trains in `runs`, None for none; `holder_run` is the id of its run if it is
    supervised, `orphan` if the supervisor was killed. `options` select this job for provision and train,
    `doctor_options` for doctor, `more` are further options of train. `plan` is the planner's result, `lock` the lock
    file of provision, `lock_error` why it cannot be read. `master` is the address of node 0 and `host` that of this
    node, "" if not given; `own_master` and `own_host` say whether they belong to this machine, None: unknown.
    `checkpoint` is the folder to resume from. `rank` is the number of this node; `leads` is true on node 0. `choice`
    are the cards; None: the first visible ones.
    """

    recipe: Recipe
    job: RecipeJob
    command: TrainingCommand
    device: str
    runs: Path
    facts: Facts
    stage: Stage
    sight: StageFacts
    doctor: tuple[Finding, ...] = ()
    runs_error: str | None = None
    holder: str | None = None
    holder_run: str = ""
    orphan: str = ""
    port: int | None = None
    port_error: str | None = None
    stale: tuple[str, ...] = ()
    options: str = ""
    doctor_options: str = ""
    more: str = ""
    plan: LaunchPlan | None = None
    lock: Lock | None = None
    lock_error: Message = NOTHING
    master: str = ""
    leads: bool = True
    own_master: bool | None = None
    host: str = ""
    own_host: bool | None = None
    rank: int | None = None
    checkpoint: str = ""
    choice: CardChoice | None = None


@contextlib.contextmanager
def folder_lock(runs: Path) -> Iterator[tuple[str | None, str | None]]:
    """Lock a runs folder against a second run; yields (error when writing to it, process that holds the lock).

    Both are None on success.  The kernel releases the lock when this process ends; the pid in the file is information.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        file = os.open(runs / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as err:
        yield _error_text(err), None
        return
    try:
        yield _test_writable(runs), _lock_file(file)
    finally:
        os.close(file)


def _lock_file(file: int) -> str | None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        if err.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return None  # the file system does not support locks: continue without
        return os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
    with contextlib.suppress(OSError):  # a full disk is detected by _test_writable
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return None


def sign_lock(runs: Path) -> None:
    """Write the current pid to the lock file, after a fork took over the lock."""
    with contextlib.suppress(OSError):
        (runs / ".lock").write_text(str(os.getpid()))


def _test_writable(folder: Path) -> str | None:
    """Return the error when writing 64 KiB, None on success: full disks may still create empty files."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(64 << 10))
            file.flush()
    except OSError as err:
        return _error_text(err)
    return None


def read_lockfile(folder: Path, recipe: str) -> tuple[Lock | None, Message]:
    """Return (lock file of provision for the recipe or None, error when reading it)."""
    try:
        return recipe_locks.read_lock(folder, recipe), NOTHING
    except EnvcheckError as err:
        return None, err.message


def find_launcher_port(argv: Iterable[str], environment: Mapping[str, str]) -> int | None:
    """Return the port that the launcher opens on node 0: --master HOST:PORT, --master_port, --start_port, MASTER_PORT.

    None without these: paddle then chooses free ports.
    """
    parts = tuple(argv)
    for option, text in zip(parts, (*parts[1:], ""), strict=True):
        name, _, joined = option.partition("=")
        found = re.fullmatch(r"(?:.*:)?(\d{1,5})", joined or text)
        if name in ("--master", "--master_port", "--master-port", "--start_port") and found:
            return int(found[1])
    text = environment.get("MASTER_PORT", "")
    return int(text) if re.fullmatch(r"\d{1,5}", text) else None


def _error_text(err: OSError) -> str:
    return describe_os_error(err)
