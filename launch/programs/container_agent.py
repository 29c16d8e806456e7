"""Supervise a training in its container: start it, report events, end it when the connection closes.

Runs under the container's Python (3.8 or newer, standard library only) as `container_agent.py JOB`; JOB is a JSON file
that is deleted after reading.  Events on standard output, one JSON document per line:

    {"began": pid}, or {"unstarted": program, "reason": text}
    {"file": "workerlog.3", "data": base64}   new data of a log
    {"met": 3}   worker 3 has started
    {"dead": 3, "code": -9}   worker 3 has ended; code null if unknown
    {"peak": bytes}   peak memory of all processes together
    {"end": status, "outputs": [...]}   last event, with the checkpoint folders

The line "save" on standard input asks the workers to save and exit; the line "stop", or a signal, ends them.  At the
end of the input, when the supervisor was killed, the training goes on without events.  The exit status is also written
to the file .exit of the run folder.

`container_agent.py --attach JOB` supervises a training again that goes on in this way, or has ended meanwhile; the job
has "sent", the number of bytes of each log that the supervisor already has.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOK_S, CHUNK, FILES = 0.2, 1 << 18, 4096
STATUS_S = 3.0  # time for the first agent to write the status of a launcher that has just ended
# Variables with the rank of a worker: on its node, as in the names of logs (paddle, torchrun), else in the whole job.
RANKS = ("PADDLE_RANK_IN_NODE", "LOCAL_RANK", "PADDLE_TRAINER_ID", "RANK")
MARK = "ENVCHECK_RUN"
PAGE = os.sysconf("SC_PAGE_SIZE")
PRIVATE = 0o700
STATUS_FILE, ROOM = ".exit", 64  # bytes reserved at the start: a full disk must not lose the status
has_supervisor = True
# paddle.distributed.launch 3.1 and 3.3 write the whole environment, possibly with secrets, into envlog.RANK,
# backup_env.RANK.json and the first line of JOB.POD.log (tested); only their own processes read the second.
DUMP = re.compile(r"envlog\.[\w.]+|backup_env\.\d+\.json")
POD_LOG, ENVIRONMENT = re.compile(r"[\w-]+\.\w+\.log"), b"environ("


def print_event(**words: object) -> None:
    """Print an event as one line of JSON; nobody reads it after the supervisor was killed."""
    if has_supervisor:
        with contextlib.suppress(OSError):
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
        for path in () if self.silent or not has_supervisor else self.list_paths():
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


def end_processes(launcher: int, family: ContainerProcesses, grace_s: float) -> None:
    """End the launcher, which ends its workers, then all remaining processes of the run in any session."""
    if is_alive(launcher):
        with contextlib.suppress(OSError):
            os.killpg(launcher, signal.SIGTERM)
        wait_until(lambda: not is_alive(launcher), grace_s)
    for sign in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        left = family.list_members()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, sign)
        if left:
            wait_until(lambda: not family.list_members(), 3)


def wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    """Wait until the condition is true, at most for `seconds`."""
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:
        time.sleep(0.05)


def request_stop(family: ContainerProcesses, launcher: int) -> None:
    """Send SIGTERM to the workers, or to a program without workers, which then save and exit."""
    for pid in [pid for rank, pid in family.workers.items() if rank not in family.dead] or [launcher]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def list_checkpoints(folder: Path) -> list[str]:
    """Return the checkpoints below an output folder, oldest first: folders with a step number, else all folders.

    ms-swift adds a folder per start in between: v0-TIME/checkpoint-N, which is itself none; runs is TensorBoard's.
    """
    made = [
        *list_subfolders(folder),
        *(f"{top}/{name}" for top in list_subfolders(folder) for name in list_subfolders(folder / top)),
    ]
    numbered = [name for name in made if re.search(r"(^|/)checkpoint[-_]\d{1,9}$", name)]
    others = [name for name in list_subfolders(folder) if not re.fullmatch(r"v\d{1,9}-\d{8}-\d{6}|runs", name)]
    return sorted(numbered or others, key=lambda name: (step_number(name), name))[:FILES]


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
    run = Path(job["run"])
    try:
        child = start_launcher(job, run)
    except OSError as err:
        print_event(unstarted=str(err.filename or job["argv"][0]), reason=(err.strerror or str(err)).lower())
        return
    print_event(began=child.pid)
    status_file = open_status_file(run / STATUS_FILE)
    family, logs = ContainerProcesses(job["environment"][MARK]), open_logs(job, run)
    follow_training(lambda: child.poll() is None, child.pid, family, logs)
    end_processes(child.pid, family, job["grace_s"])
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(3)
    with contextlib.suppress(OSError):
        os.pwrite(status_file, json.dumps({"status": child.returncode}).encode(), 0)
    report_end(run, family, logs, child.returncode)


def attach_training(job: dict[str, Any]) -> None:
    """Supervise a training that another agent started; its status is in the status file when it has ended."""
    run = Path(job["run"])
    family, logs = ContainerProcesses(job["mark"]), open_logs(job, run)
    launcher = find_launcher(family)
    print_event(began=launcher)
    follow_training(lambda: read_status(run) is None and bool(family.list_members()), launcher, family, logs)
    end_processes(launcher, family, job["grace_s"])
    wait_until(lambda: read_status(run) is not None, STATUS_S)
    status = read_status(run)
    report_end(run, family, logs, -signal.SIGKILL if status is None else status)


def find_launcher(family: ContainerProcesses) -> int:
    """Return the first process of the training, whose parent does not belong to it; 0 if all have ended."""
    alive = family.list_members()
    return next((pid for pid in sorted(alive) if int(read_stat_fields(pid)[1]) not in alive), 0)


def follow_training(
    is_running: Callable[[], bool], launcher: int, family: ContainerProcesses, logs: LogForwarder
) -> None:
    """Report events and obey the input until the training ends or must be ended."""
    global has_supervisor
    stop: list[int] = []
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, lambda number, _frame: stop.append(number))
    while is_running() and not stop:
        family.update_workers()
        logs.send_new_data()
        if not has_supervisor:
            time.sleep(LOOK_S)
        elif select.select([0], [], [], LOOK_S)[0]:
            said = os.read(0, 4096)
            has_supervisor = bool(said)
            if b"stop" in said:
                stop.append(0)
            elif said:
                request_stop(family, launcher)
    family.update_workers()


def report_end(run: Path, family: ContainerProcesses, logs: LogForwarder, status: int) -> None:
    """Send the last events."""
    remove_environment_dumps(run / "log")
    logs.send_new_data()
    print_event(peak=family.peak)
    print_event(end=status, outputs=list_checkpoints(run / "output"))


def open_status_file(path: Path) -> int:
    """Create the file and reserve its space; -1 if that fails."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(file, b" " * ROOM)
    except OSError:
        return -1
    return file


def read_status(run: Path) -> int | None:
    """Return the exit status in the status file, None while the training runs."""
    try:
        status = json.loads((run / STATUS_FILE).read_text())["status"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return status if isinstance(status, int) else None


def open_logs(job: dict[str, Any], run: Path) -> LogForwarder:
    """Return the forwarder of the run's logs, after the part that the supervisor already has."""
    logs = LogForwarder(run / "log", shares_folder(run, job["nonce"]))
    logs.at.update({run / "log" / name: at for name, at in job.get("sent", {}).items()})
    return logs


def shares_folder(run: Path, nonce: str) -> bool:
    """Whether the host shares the run folder: it wrote the nonce into its own."""
    try:
        return (run / ".here").read_text() == nonce
    except OSError:
        return False


def main() -> None:
    """Read and delete the job file, and run the job."""
    path = Path(sys.argv[-1])
    job = json.loads(path.read_text())
    path.unlink()
    attach_training(job) if sys.argv[1] == "--attach" else supervise_training(job)


if __name__ == "__main__":
    main()
