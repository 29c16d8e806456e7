"""envcheck simulate: a command on a simulated machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.collect.answer_sources import simulated_machine
from envcheck.simulate import faults
from envcheck.simulate.machine_file import list_machines
from tests.envcheck.simulate.simulation_parts import parse_tool

MACHINES = sorted(list_machines())
ENVCHECK = [sys.executable, "-m", "envcheck"]


def run_simulate(*argv: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(tmp), "ENVCHECK_HOME": str(tmp / "home")}
    return subprocess.run([*ENVCHECK, "simulate", *argv], capture_output=True, text=True, timeout=60, env=env)


def list_leftovers(tmp: Path) -> list[str]:
    return [path.name for path in tmp.iterdir() if path.name.startswith("envcheck-simulated")]


def test_command_runs_there(tmp_path: Path) -> None:
    """The simulated tools come first on the command's PATH; its exit code is returned; the folder is deleted
    afterwards.
    """
    done = run_simulate("bi-v150x8", "--", "sh", "-c", "ixsmi -L; exit 7", tmp=tmp_path)

    assert done.returncode == 7
    assert done.stdout.count("Iluvatar BI-V150") == 16
    assert list_leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("cpu", "--", "no-such-command-here"), 127, "not found"),
        (("cpu", "--", "sh", "-c", "kill -KILL $$"), 137, ""),
        (("cpu",), 2, "no command"),
        ((), 2, "no machine specified"),
        (("vax", "--", "true"), 2, "choose one of"),
        (("cpu", "--fault", "ecc", "--", "true"), 2, "docker-absent, shm-small"),
        (("cpu", "--machines", "/nowhere", "--", "true"), 2, "not a directory"),
        (("cpu", "--keep", "/dev/null", "--", "true"), 2, "specify a new directory with --keep"),
        (("cpu", "--keep", "/proc/nowhere", "--", "true"), 2, "cannot write"),
    ],
)
def test_ends_as_a_shell_would(argv: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    """Each end has a shell's exit code and, if envcheck itself stopped, a message."""
    done = run_simulate(*argv, tmp=tmp_path)

    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list_leftovers(tmp_path) == []


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_are_passed_on(sign: signal.Signals, code: int, tmp_path: Path) -> None:
    """SIGINT and SIGTERM reach the command, and the folder is deleted when it has ended."""
    command = [*ENVCHECK, "simulate", "h200x8", "--", "sh", "-c", "echo ready; exec sleep 600"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(sign)

        assert child.wait(300) == code
    assert list_leftovers(tmp_path) == []


def test_kept_folder_can_be_used_by_hand(tmp_path: Path) -> None:
    """--keep leaves the folder, which may be moved, and prints how to use it."""
    done = run_simulate("atlas-800t-a2", "--keep", str(tmp_path / "kept"), tmp=tmp_path)
    moved = tmp_path / "moved"
    (tmp_path / "kept").rename(moved)

    assert "ENVCHECK_SYSROOT" in done.stdout
    assert len(parse_tool(simulated_machine(moved), "npu-smi", "info").devices) == 8
    assert (moved / "root/dev/davinci7").exists()
    assert run_simulate("cpu", "--keep", str(moved), tmp=tmp_path).returncode == 2


def test_list(tmp_path: Path) -> None:
    """--list shows all machines and faults, as text and JSON."""
    told = json.loads(run_simulate("--list", "--json", tmp=tmp_path).stdout)
    text = run_simulate("--list", tmp=tmp_path).stdout

    assert [machine["name"] for machine in told["machines"]] == MACHINES
    assert list(faults.load_faults()) == [fault["name"] for fault in told["faults"]]
    assert all(word in text for word in (*MACHINES, *faults.load_faults()))


def test_the_command_speaks_the_language_of_simulate(tmp_path: Path) -> None:
    """--lang of simulate is that of the envcheck which runs there."""
    done = run_simulate("--lang", "zh", "p800x8", "--", *ENVCHECK, "doctor", "--device", "xpu", tmp=tmp_path)

    assert "驱动" in done.stdout
