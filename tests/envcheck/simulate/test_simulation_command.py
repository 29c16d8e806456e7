"""envcheck simulate: a command on a machine that is not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.collect.machine import simulated
from envcheck.simulate import faults
from envcheck.simulate.machine_file import names
from tests.envcheck.simulate.simulation_parts import document

MACHINES = sorted(names())
ENVCHECK = [sys.executable, "-m", "envcheck"]


def simulate(*argv: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(tmp), "ENVCHECK_HOME": str(tmp / "home")}
    return subprocess.run([*ENVCHECK, "simulate", *argv], capture_output=True, text=True, timeout=60, env=env)


def leftovers(tmp: Path) -> list[str]:
    return [path.name for path in tmp.iterdir() if path.name.startswith("envcheck-simulated")]


def test_command_runs_there(tmp_path: Path) -> None:
    """The command sees the simulated tools first on its PATH; its exit code is ours; the folder is gone afterwards."""
    done = simulate("bi-v150x8", "--", "sh", "-c", "ixsmi -L; exit 7", tmp=tmp_path)

    assert done.returncode == 7
    assert done.stdout.count("Iluvatar BI-V150") == 16
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("cpu", "--", "no-such-command-here"), 127, "not found"),
        (("cpu", "--", "sh", "-c", "kill -KILL $$"), 137, ""),
        (("cpu",), 2, "no command"),
        ((), 2, "which machine"),
        (("vax", "--", "true"), 2, "choose one of"),
        (("cpu", "--fault", "ecc", "--", "true"), 2, "docker-absent, shm-small"),
        (("cpu", "--machines", "/nowhere", "--", "true"), 2, "not a folder"),
        (("cpu", "--keep", "/dev/null", "--", "true"), 2, "give --keep a new folder"),
        (("cpu", "--keep", "/proc/nowhere", "--", "true"), 2, "cannot be written"),
    ],
)
def test_ends_as_a_shell_would(argv: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    """Each way of ending has its exit code and, where envcheck itself stopped, a sentence."""
    done = simulate(*argv, tmp=tmp_path)

    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_are_passed_on(sign: signal.Signals, code: int, tmp_path: Path) -> None:
    """Ctrl-C and a polite kill reach the command, and the folder is gone when it has ended."""
    command = [*ENVCHECK, "simulate", "h200x8", "--", "sh", "-c", "echo ready; exec sleep 600"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(sign)

        assert child.wait(300) == code
    assert leftovers(tmp_path) == []


def test_kept_folder_can_be_used_by_hand(tmp_path: Path) -> None:
    """--keep leaves the folder, which may be moved, and says how to use it."""
    done = simulate("atlas-800t-a2", "--keep", str(tmp_path / "kept"), tmp=tmp_path)
    moved = tmp_path / "moved"
    (tmp_path / "kept").rename(moved)

    assert "ENVCHECK_SYSROOT" in done.stdout
    assert len(document(simulated(moved), "npu-smi", "info").devices) == 8
    assert (moved / "root/dev/davinci7").exists()
    assert simulate("cpu", "--keep", str(moved), tmp=tmp_path).returncode == 2


def test_list(tmp_path: Path) -> None:
    """--list names all machines and faults, for people and for programs."""
    told = json.loads(simulate("--list", "--json", tmp=tmp_path).stdout)
    text = simulate("--list", tmp=tmp_path).stdout

    assert [machine["name"] for machine in told["machines"]] == MACHINES
    assert list(faults.load_faults()) == [fault["name"] for fault in told["faults"]]
    assert all(word in text for word in (*MACHINES, *faults.load_faults()))
