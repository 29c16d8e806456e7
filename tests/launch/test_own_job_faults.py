"""Faults around a user's own job: a closed terminal, the memory of a cgroup, and a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.runs.stand_in import wait_until
from tests.launch.test_train import list_remaining_processes, make_variables, read_record

PROGRAM = Path(__file__).with_name("own_job_program.py")
FAULT = Path(__file__).with_name("fault_program.py")
TRAIN = (sys.executable, "-m", "envcheck", "train", "--device", "cpu", "--json")
LIMIT_BYTES = 384 << 20  # envcheck itself takes about 100 MiB


@pytest.mark.slow
def test_closed_terminal(tmp_path: Path) -> None:
    """A terminal that is closed ends only the view: the training goes on and is recorded to its end."""
    words = ["--", sys.executable, str(PROGRAM), "--output_dir", "out", "--max_steps", "300"]
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(tmp_path)
            os.execve(sys.executable, [*TRAIN, *words], make_variables(tmp_path / "home"))
        finally:  # never a second pytest
            os._exit(127)
    wait_until(lambda: list(tmp_path.glob("runs/*/run.json")) and is_running(tmp_path), "the start")
    os.close(terminal)
    os.waitpid(pid, 0)

    wait_until(lambda: not is_running(tmp_path), "the end of the training")
    said = read_record(tmp_path)
    assert (said["state"], len(said["loss"])) == ("succeeded", 300)
    assert list_remaining_processes(tmp_path) == []


def is_running(folder: Path) -> bool:
    return read_record(folder)["state"] in ("starting", "running")


@contextlib.contextmanager
def make_memory_group(name: str) -> Iterator[Path]:
    """Yield a cgroup with LIMIT_BYTES of memory and no swap, in either version of cgroups."""
    root = Path("/sys/fs/cgroup")
    is_old = (root / "memory").is_dir()
    group = (root / "memory" if is_old else root) / name
    if os.geteuid() or not (is_old or "memory" in (root / "cgroup.subtree_control").read_text().split()):
        pytest.skip("needs root and a memory cgroup that can be divided")
    group.mkdir()
    limits = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if is_old else ("memory.max", "memory.swap.max")
    for file, value in zip(limits, (LIMIT_BYTES, LIMIT_BYTES if is_old else 0), strict=True):
        with contextlib.suppress(OSError):  # a kernel without accounting of swap
            (group / file).write_text(str(value))
    try:
        yield group
    finally:
        group.rmdir()


def run_with_fault(folder: Path, before: str, *words: str) -> dict[str, Any]:
    """Run the program that makes the fault after a line of shell, with mounts of its own; return the record."""
    argv = ["unshare", "--mount", "sh", "-c", f'{before} && exec "$@"', "sh", *TRAIN, *words]
    done = subprocess.run(
        argv, cwd=folder, env=make_variables(folder / "home"), capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 5, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.extended
def test_memory_of_the_cgroup(tmp_path: Path) -> None:
    """The kernel kills the program for its cgroup's limit: that is the cause, and no process is left."""
    with make_memory_group(f"envcheck-{os.getpid()}") as group:
        command = ("--", sys.executable, str(FAULT), "memory", "out")
        said = run_with_fault(tmp_path, f"echo $$ > {group}/cgroup.procs", *command)
        wait_until(lambda: not (group / "cgroup.procs").read_text().split(), "the end of all processes")

    assert (said["state"], len(said["loss"]) > 5) == ("failed", True)
    assert "memory.host_oom" in [one["name"] for one in said["diagnoses"]], said["diagnoses"]
    assert list_remaining_processes(tmp_path) == []


@pytest.mark.extended
def test_full_disk(tmp_path: Path) -> None:
    """The disk of runs and checkpoints fills up: the record is whole, and the cause is named."""
    if os.geteuid():
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    before = f"mount -t tmpfs -o size=12m none {disk} && cd {disk}"
    waived = [word for name in ("disk", "host.disk") for word in ("--waive", name, "--because", "a test")]
    done = run_with_fault(tmp_path, before, *waived, "--", sys.executable, str(FAULT), "disk", "out")

    assert done["state"] == "failed"
    assert len(done["loss"]) > 5
    assert "host.disk_full" in [one["name"] for one in done["diagnoses"]], done["diagnoses"]
