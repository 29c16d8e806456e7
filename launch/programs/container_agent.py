"""Supervise a training in its container: start it, report events, end it when the connection closes.

Runs under the container's Python (3.8 or newer, standard library only) as `container_agent.py JOB`; JOB is a JSON file
that is deleted after reading.  Events on standard output, one JSON document per line:

    {"began": pid}, or {"unstarted": program, "reason": text}
    {"file": "workerlog.3", "data": base64}   new data of a log
    {"met": 3}   worker 3 has started
    {"dead": 3, "code": -9}   worker 3 has ended; code null if unknown
    {"peak": bytes}   peak memory of all processes together
    {"end": status, "outputs": [...]}   last event, with the checkpoint folders

A line on standard input asks the workers to save and exit; the end of the input, or a signal, ends them.
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
# Variables with the rank of a worker: on its node, as in the names of logs (paddle, torchrun), else in the whole job.
RANKS = ("PADDLE_RANK_IN_NODE", "LOCAL_RANK", "PADDLE_TRAINER_ID", "RANK")
MARK = "ENVCHECK_RUN"
PAGE = os.sysconf("SC_PAGE_SIZE")
PRIVATE = 0o700
# paddle.distributed.launch 3.1 and 3.3 write the whole environment, possibly with secrets, into envlog.RANK,
# backup_env.RANK.json and the first line of JOB.POD.log (tested); only their own processes read the second.
DUMP = re.compile(r"envlog\.[\w.]+|backup_env\.\d+\.json")
POD_LOG, ENVIRONMENT = re.compile(r"[\w-]+\.\w+\.log"), b"environ("


def print_event(**words: object) -> None:
    """Print an event as one line of JSON."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def read_environment(pid: int) -> dict[str, str]:
    """Return the environment of a process, {} if it has ended or is just starting."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return {name: text for name, _, text in (pair.partition("=") for pair in pairs) if name}


def read_stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name (state, parent, ...); state X for an ended process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    return read_stat_fields(pid)[0] not in "ZX"


def read_resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


class ContainerProcesses:
    """The processes with the run's mark in their environment, and among them the workers by rank."""

    def __init__(self, mark: str) -> None:
        self.mark, self.peak = mark, 0
        self.known: dict[int, dict[str, str]] = {}
        self.workers: dict[int, int] = {}
        self.dead: set[int] = set()

    def list_members(self) -> list[int]:
        """Return the pids of living processes of the run; each environment is read once, as it does not change."""
        for pid in [int(place.name) for place in Path("/proc").glob("[0-9]*")]:
            if pid not in self.known and (found := read_environment(pid)):
                self.known[pid] = found if found.get(MARK) == self.mark else {}
        return [pid for pid, found in self.known.items() if found and pid != os.getpid() and is_alive(pid)]

    def update_workers(self) -> None:
        """Report new and ended workers, and update the peak memory."""
        alive = self.list_members()
        self.peak = max(self.peak, sum(map(read_resident_bytes, alive)))
        for pid in alive:
            self.register_worker(pid)
        for rank, pid in self.workers.items():
            if rank not in self.dead and not is_alive(pid):
                self.dead.add(rank)
                print_event(dead=rank, code=read_exit_code(pid))

    def register_worker(self, pid: int) -> None:
        """Report a process as a worker if the launcher gave it a rank; its children inherit the rank."""
        rank, parent = read_rank(self.known[pid]), int(read_stat_fields(pid)[1])
        if rank is not None and rank not in self.workers and read_rank(self.known.get(parent, {})) != rank:
            self.workers[rank] = pid
            print_event(met=rank)


def read_rank(found: dict[str, str]) -> int | None:
    """Return the rank in an environment, None without one."""
    text = next((found[name] for name in RANKS if found.get(name)), "")
    return int(text) if text.isdigit() else None


def read_exit_code(pid: int) -> int | None:
    """Return the exit code of a zombie, negative for a signal; None if already reaped."""
    found = read_stat_fields(pid)
    if found[0] not in "ZX" or len(found) < 3:
        return None
    status = int(found[-1])
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def is_environment_dump(path: Path) -> bool:
    """Whether the file is a launcher's copy of its environment."""
    if DUMP.fullmatch(path.name):
        return True
    with contextlib.suppress(OSError):
        if POD_LOG.fullmatch(path.name):
            with path.open("rb") as file:
                return file.read(len(ENVIRONMENT)) == ENVIRONMENT
    return False


def remove_environment_dumps(folder: Path) -> None:
    """Remove copies of the environment, which may contain secrets."""
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and is_environment_dump(path):
                path.unlink()


class LogForwarder:
    """Sends new data of all files below a folder; `silent` if the host shares the folder."""

    def __init__(self, folder: Path, silent: bool) -> None:
        self.folder, self.silent = folder, silent
        self.at: dict[Path, int] = {}

    def send_new_data(self) -> None:
        """Send everything that was written since the last call."""
        for path in () if self.silent else self.list_paths():
            while self.send_chunk(path):
                pass

    def list_paths(self) -> list[Path]:
        """Return the files to send, without copies of the environment."""
        found = sorted(Path(top) / name for top, _, names in os.walk(self.folder) for name in names)
        return [
            path for path in found[:FILES] if path.is_file() and not path.is_symlink() and not is_environment_dump(path)
        ]

    def send_chunk(self, path: Path) -> bool:
        """Send the next chunk of a file; return whether there may be more."""
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(self.at.get(path, 0))
            data = file.read(CHUNK)
            self.at[path] = file.tell()
            if data:
                print_event(file=str(path.relative_to(self.folder)), data=base64.b64encode(data).decode())
            return len(data) == CHUNK
        return False


def end_processes(child: subprocess.Popen[bytes], family: ContainerProcesses, grace_s: float) -> None:
    """End the launcher, which ends its workers, then all remaining processes of the run in any session."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
    for sign in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        left, until = family.list_members(), time.monotonic() + 3
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, sign)
        while left and time.monotonic() < until and family.list_members():
            child.poll()
            time.sleep(0.05)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(3)


def request_stop(family: ContainerProcesses, launcher: int) -> None:
    """Send SIGTERM to the workers, or to a program without workers, which then save and exit."""
    for pid in [pid for rank, pid in family.workers.items() if rank not in family.dead] or [launcher]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def list_checkpoints(folder: Path) -> list[str]:
    """Return the checkpoints below an output folder, oldest first: folders with a step number, else all folders.

    ms-swift adds a folder per start in between: v0-TIME/checkpoint-N.
    """
    made = [
        *list_subfolders(folder),
        *(f"{top}/{name}" for top in list_subfolders(folder) for name in list_subfolders(folder / top)),
    ]
    numbered = [name for name in made if re.search(r"(^|/)checkpoint[-_]\d{1,9}$", name)]
    return sorted(numbered or list_subfolders(folder), key=lambda name: (step_number(name), name))[:FILES]


def list_subfolders(folder: Path) -> list[str]:
    """Return the names of subfolders; hidden ones are incomplete checkpoints."""
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != "."]
    except OSError:
        return []


def step_number(name: str) -> int:
    """Return the number at the end of a name, 0 without one."""
    found = re.search(r"(\d{1,9})$", name)
    return int(found[1]) if found else 0


def start_launcher(job: dict[str, Any], run: Path) -> subprocess.Popen[bytes]:
    """Start the launcher with its output in log/launcher.log."""
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


def supervise_training(job: dict[str, Any]) -> None:
    """Run the job (see launch.run.container_stage) to its end."""
    stop: list[int] = []
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, lambda number, _frame: stop.append(number))
    run = Path(job["run"])
    try:
        child = start_launcher(job, run)
    except OSError as err:
        print_event(unstarted=str(err.filename or job["argv"][0]), reason=(err.strerror or str(err)).lower())
        return
    print_event(began=child.pid)
    family, logs = (
        ContainerProcesses(job["environment"][MARK]),
        LogForwarder(run / "log", shares_folder(run, job["nonce"])),
    )
    while child.poll() is None and not stop:
        family.update_workers()
        logs.send_new_data()
        if select.select([0], [], [], LOOK_S)[0]:
            said = os.read(0, 4096)
            if said:
                request_stop(family, child.pid)
            else:
                stop.append(0)
    family.update_workers()
    end_processes(child, family, job["grace_s"])
    remove_environment_dumps(run / "log")
    logs.send_new_data()
    print_event(peak=family.peak)
    print_event(end=child.returncode, outputs=list_checkpoints(run / "output"))


def shares_folder(run: Path, nonce: str) -> bool:
    """Whether the host shares the run folder: it wrote the nonce into its own."""
    try:
        return (run / ".here").read_text() == nonce
    except OSError:
        return False


def main() -> None:
    """Read and delete the job file, and run the job."""
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    path.unlink()
    supervise_training(job)


if __name__ == "__main__":
    main()
