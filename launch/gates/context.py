"""What the gates look at, gathered before anything starts; the only part of the gates that touches the machine."""

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

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts
from envcheck.core.model import Finding
from envcheck.job.command import TrainingCommand
from installers.bundle import lock_notes
from installers.locks.lockfile import Lock
from installers.recipes.recipe import Recipe, RecipeJob
from launch.planner import LaunchPlan
from launch.targets.stage import Stage, StageFacts


@dataclass(frozen=True)
class GateContext:
    """`job` is the recipe's own record of the job; `sight` is what was found on the `stage`; `runs_error`, `port_error`
    and `holder` (who trains there already) are None where all is well; `options` are those with which provision and
    train mean this job again, `doctor_options` those of doctor, `more` what train alone knows; `plan` is the planner's,
    `lock` what provision left, `lock_error` why it cannot be read; `master` is the address of node 0, `host` the one of
    this node, where somebody said it; `rank` the number of this node, which `leads` where it is 0; `own_master` and
    `own_host`: that address is this machine's, None: nobody knows."""

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
    port: int | None = None
    port_error: str | None = None
    stale: tuple[str, ...] = ()
    options: str = ""
    doctor_options: str = ""
    more: str = ""
    plan: LaunchPlan | None = None
    lock: Lock | None = None
    lock_error: str = ""
    master: str = ""
    leads: bool = True
    own_master: bool | None = None
    host: str = ""
    own_host: bool | None = None
    rank: int | None = None


@contextlib.contextmanager
def folder_lock(runs: Path) -> Iterator[tuple[str | None, str | None]]:
    """One run at a time in a folder: yields (what forbids writing there, who else runs there), None for nobody.

    The lock is the kernel's and ends with us, however we end; the text in it is for people.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        file = os.open(runs / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as err:
        yield _why(err), None
        return
    try:
        yield _write_test(runs), _take(file)
    finally:
        os.close(file)


def _take(file: int) -> str | None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        if err.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return None  # a file system without locks: better without than never
        return os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
    with contextlib.suppress(OSError):  # a full disk is found by the test file
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return None


def sign(runs: Path) -> None:
    """Who holds the lock by now, where a process of another number has taken it over."""
    with contextlib.suppress(OSError):
        (runs / ".lock").write_text(str(os.getpid()))


def _write_test(folder: Path) -> str | None:
    """Write and remove a file of a few pages: some full disks still give empty files."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(64 << 10))
            file.flush()
    except OSError as err:
        return _why(err)
    return None


def locked(folder: Path, recipe: str) -> tuple[Lock | None, str]:
    """The lock that provision left of the recipe in the environment's folder, and why it cannot be read."""
    try:
        return lock_notes.read(folder, recipe), ""
    except EnvcheckError as err:
        return None, err.message


def port_of(argv: Iterable[str], environment: Mapping[str, str]) -> int | None:
    """The port that the launcher would open on node 0: of --master HOST:PORT, --master_port, --start_port, MASTER_PORT.

    Without these paddle looks for free ones itself.
    """
    parts = tuple(argv)
    for option, text in zip(parts, (*parts[1:], ""), strict=True):
        name, _, joined = option.partition("=")
        found = re.fullmatch(r"(?:.*:)?(\d{1,5})", joined or text)
        if name in ("--master", "--master_port", "--master-port", "--start_port") and found:
            return int(found[1])
    text = environment.get("MASTER_PORT", "")
    return int(text) if re.fullmatch(r"\d{1,5}", text) else None


def _why(err: OSError) -> str:
    return (err.strerror or str(err)).lower()
