"""Sits with a training in its container: starts it, tells what happens to it, ends it when nobody listens any more.

Run by the container's own Python (3.8 or newer, the standard library alone) as `container_agent.py JOB`; JOB is a JSON
file that is removed once it was read.  Told on standard output, a JSON document a line:

    {"began": pid}, or {"unstarted": words}
    {"file": "workerlog.3", "data": base64}   what a log grew by
    {"met": 3}   a worker was seen
    {"dead": 3, "code": -9}   a worker ended; code null where nobody saw it
    {"peak": bytes}   the most memory that all processes held together
    {"end": status, "outputs": [...]}   the last word; outputs are the folders that the training made

A line on standard input asks the workers to save and to end; its end, or a signal, is the order to end them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LOOK_S, CHUNK, FILES = 0.2, 1 << 18, 4096
# A worker by its number on its node, as in the names of logs (paddle and torchrun); else by that in the whole job.
RANKS = ("PADDLE_RANK_IN_NODE", "LOCAL_RANK", "PADDLE_TRAINER_ID", "RANK")
MARK = "ENVCHECK_RUN"
PAGE = os.sysconf("SC_PAGE_SIZE")
PRIVATE = 0o700
# paddle.distributed.launch 3.1 and 3.3 write the whole environment into envlog.RANK, backup_env.RANK.json and, as the
# first line, into JOB.POD.log (tried); only their own processes read the second, while they run.
DUMP = re.compile(r"envlog\.[\w.]+|backup_env\.\d+\.json")
POD_LOG, ENVIRONMENT = re.compile(r"[\w-]+\.\w+\.log"), b"environ("


def say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def variables(pid: int) -> dict[str, str]:
    """Of a process; {} where it has gone, or is about to begin."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return {name: text for name, _, text in (pair.partition("=") for pair in pairs) if name}


def fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, those after the name: state, parent, ...; a process that has gone is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def lives(pid: int) -> bool:
    return fields(pid)[0] not in "ZX"


def held(pid: int) -> int:
    """Bytes of memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


class ContainerProcesses:
    """The processes that bear the run's mark, and of those the workers by their rank."""

    def __init__(self, mark: str) -> None:
        self.mark, self.peak = mark, 0
        self.known: dict[int, dict[str, str]] = {}
        self.workers: dict[int, int] = {}
        self.dead: set[int] = set()

    def members(self) -> list[int]:
        """Those that live.  What a process was told at its start does not change, so it is read once."""
        for pid in [int(place.name) for place in Path("/proc").glob("[0-9]*")]:
            if pid not in self.known and (found := variables(pid)):
                self.known[pid] = found if found.get(MARK) == self.mark else {}
        return [pid for pid, found in self.known.items() if found and pid != os.getpid() and lives(pid)]

    def look(self) -> None:
        alive = self.members()
        self.peak = max(self.peak, sum(map(held, alive)))
        for pid in alive:
            self.meet(pid)
        for rank, pid in self.workers.items():
            if rank not in self.dead and not lives(pid):
                self.dead.add(rank)
                say(dead=rank, code=ended(pid))

    def meet(self, pid: int) -> None:
        """A worker is who was given a rank by the launcher; its own children inherit it."""
        rank, parent = number(self.known[pid]), int(fields(pid)[1])
        if rank is not None and rank not in self.workers and number(self.known.get(parent, {})) != rank:
            self.workers[rank] = pid
            say(met=rank)


def number(found: dict[str, str]) -> int | None:
    text = next((found[name] for name in RANKS if found.get(name)), "")
    return int(text) if text.isdigit() else None


def ended(pid: int) -> int | None:
    """A zombie's code as subprocess gives it; None where its parent has taken it away."""
    found = fields(pid)
    if found[0] not in "ZX" or len(found) < 3:
        return None
    status = int(found[-1])
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def dump(path: Path) -> bool:
    """A launcher's copy of its environment."""
    if DUMP.fullmatch(path.name):
        return True
    with contextlib.suppress(OSError):
        if POD_LOG.fullmatch(path.name):
            with path.open("rb") as file:
                return file.read(len(ENVIRONMENT)) == ENVIRONMENT
    return False


def sweep(folder: Path) -> None:
    """Remove such copies: what a training was told may hold secrets."""
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and dump(path):
                path.unlink()


class Logs:
    """What the files below a folder grow by; `silent` where the other side sees the folder itself."""

    def __init__(self, folder: Path, silent: bool) -> None:
        self.folder, self.silent = folder, silent
        self.at: dict[Path, int] = {}

    def tell(self) -> None:
        for path in () if self.silent else self.paths():
            while self.piece(path):
                pass

    def paths(self) -> list[Path]:
        found = sorted(Path(top) / name for top, _, names in os.walk(self.folder) for name in names)
        return [path for path in found[:FILES] if path.is_file() and not path.is_symlink() and not dump(path)]

    def piece(self, path: Path) -> bool:
        """Tell the next one; whether there may be more."""
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(self.at.get(path, 0))
            data = file.read(CHUNK)
            self.at[path] = file.tell()
            if data:
                say(file=str(path.relative_to(self.folder)), data=base64.b64encode(data).decode())
            return len(data) == CHUNK
        return False


def finish(child: subprocess.Popen[bytes], family: ContainerProcesses, grace_s: float) -> None:
    """The launcher first, which ends its workers; then whoever is left, in whatever session."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
    for sign in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        left, until = family.members(), time.monotonic() + 3
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, sign)
        while left and time.monotonic() < until and family.members():
            child.poll()
            time.sleep(0.05)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(3)


def ask(family: ContainerProcesses, launcher: int) -> None:
    """SIGTERM to the workers, or to a program that is none's worker: to save and to end by themselves."""
    for pid in [pid for rank, pid in family.workers.items() if rank not in family.dead] or [launcher]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def outputs(folder: Path) -> list[str]:
    """The checkpoints below a folder of outputs, oldest first: those that bear a step's number, some trainers' own
    folder for each start in between (ms-swift: v0-TIME/checkpoint-N); else whatever folders were made."""
    made = [*below(folder), *(f"{top}/{name}" for top in below(folder) for name in below(folder / top))]
    numbered = [name for name in made if re.search(r"(^|/)checkpoint[-_]\d{1,9}$", name)]
    return sorted(numbered or below(folder), key=lambda name: (step(name), name))[:FILES]


def below(folder: Path) -> list[str]:
    """Folders; what a broken save left (a dot in front) is none."""
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != "."]
    except OSError:
        return []


def step(name: str) -> int:
    found = re.search(r"(\d{1,9})$", name)
    return int(found[1]) if found else 0


def begin(job: dict[str, Any], run: Path) -> subprocess.Popen[bytes]:
    (run / "output").mkdir(parents=True, exist_ok=True)
    (run / "log").mkdir(PRIVATE, exist_ok=True)
    with (run / "log" / "launcher.log").open("ab") as words:
        return subprocess.Popen(
            job["argv"],
            env=job["environment"],
            cwd=job["workdir"] or run,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def sit(job: dict[str, Any]) -> None:
    stop: list[int] = []
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, lambda number, _frame: stop.append(number))
    run = Path(job["run"])
    try:
        child = begin(job, run)
    except OSError as err:
        say(unstarted=f"{err.filename or job['argv'][0]}: {err.strerror or err}")
        return
    say(began=child.pid)
    family, logs = ContainerProcesses(job["environment"][MARK]), Logs(run / "log", seen(run, job["nonce"]))
    while child.poll() is None and not stop:
        family.look()
        logs.tell()
        if select.select([0], [], [], LOOK_S)[0]:
            said = os.read(0, 4096)
            if said:
                ask(family, child.pid)
            else:
                stop.append(0)
    family.look()
    finish(child, family, job["grace_s"])
    sweep(run / "log")
    logs.tell()
    say(peak=family.peak)
    say(end=child.returncode, outputs=outputs(run / "output"))


def seen(run: Path, nonce: str) -> bool:
    """The other side left this word in its own folder of the run: then ours is the same."""
    try:
        return (run / ".here").read_text() == nonce
    except OSError:
        return False


def main() -> None:
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    path.unlink()
    sit(job)


if __name__ == "__main__":
    main()
