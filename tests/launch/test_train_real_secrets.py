"""Copies of the environment by paddle's launcher: private during a run, removed at its end."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.programs import container_agent
from tests.launch.real_parts import PaddleEnvironment
from tests.launch.test_train import list_remaining_processes, make_variables, read_record
from tests.tiers import thin_out

pytestmark = pytest.mark.real

SECRET = "s3cr3t-of-the-test"
PROGRAM = """
import os, pathlib, stat, sys, time
log = pathlib.Path(os.environ["PADDLE_LOG_DIR"])
copies = sorted(path.name for path in log.iterdir() if os.environ["HF_TOKEN"] in path.read_text())
print("mode", oct(stat.S_IMODE(log.stat().st_mode)), "copies", *copies, flush=True)
time.sleep({seconds})
sys.exit({code})
"""
RECIPE = """
name = "told"
title = "A training that needs a token"
device = "cpu"
framework = "envcheck"
models = ["told"]
source = "a test"
[hardware]
product = "any"
source = "a test"
[environment]
HF_TOKEN = "{secret}"
[[jobs]]
method = "sft"
title = "One process"
source = "a test"
launcher = ["{python}", "-m", "paddle.distributed.launch", "--nproc_per_node", "1", "--log_dir", "{{log_dir}}"]
arguments = ["{program}"]
"""


def make_argv(
    paddle: PaddleEnvironment, folder: Path, verb: str, *more: str, seconds: int = 0, code: int = 0
) -> list[str]:
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "program.py").write_text(PROGRAM.format(seconds=seconds, code=code))
    text = RECIPE.format(secret=SECRET, python=paddle.python_path, program=folder / "program.py")
    (folder / "recipes" / "told.toml").write_text(text)
    return [sys.executable, "-m", "envcheck", verb, "--recipe", "told", "--recipes", str(folder / "recipes"), *more]


def run_command(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    env = make_variables(folder / "home")
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def list_files_with_secret(folder: Path) -> list[Path]:
    """Return the files of runs that contain the secret."""
    return [path for path in folder.glob("runs/**/*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(("version", "code"), thin_out(1, (("3.1", 0), ("3.3", 7))))
def test_copies_of_the_environment(
    paddles: dict[str, PaddleEnvironment], version: str, code: int, tmp_path: Path
) -> None:
    """The log folder is private from the start; the copies are removed after success and failure."""
    assert run_command(make_argv(paddles[version], tmp_path, "provision", "--yes"), tmp_path).returncode == 0
    done = run_command(make_argv(paddles[version], tmp_path, "train", "--json", code=code), tmp_path)

    assert done.returncode == (5 if code else 0), done.stderr
    (worker,) = tmp_path.glob("runs/*/log/workerlog.0")
    words = worker.read_text().split("mode ")[1].split()
    assert words[:2] == ["0o700", "copies"]
    assert {"backup_env.0.json", "envlog.0"} <= set(words)  # they were there, and held it
    assert any(container_agent.POD_LOG.fullmatch(name) for name in words)
    assert list_files_with_secret(tmp_path) == []
    assert stat.S_IMODE(worker.parent.stat().st_mode) == 0o700


def test_copies_after_an_interrupt(paddles: dict[str, PaddleEnvironment], tmp_path: Path) -> None:
    """Ctrl-C leaves no copies."""
    assert run_command(make_argv(paddles["3.1"], tmp_path, "provision", "--yes"), tmp_path).returncode == 0
    words = make_argv(paddles["3.1"], tmp_path, "train", seconds=300)
    with subprocess.Popen(words, cwd=tmp_path, env=make_variables(tmp_path / "home"), stderr=subprocess.PIPE) as child:
        until = time.monotonic() + 60
        while not any("mode" in log.read_text() for log in tmp_path.glob("runs/*/log/workerlog.0")):
            assert time.monotonic() < until
            time.sleep(0.2)
        held = list_files_with_secret(tmp_path)
        child.send_signal(signal.SIGINT)
        code = child.wait(300)

    assert held
    assert (code, read_record(tmp_path)["state"]) == (130, "stopped")
    assert (list_files_with_secret(tmp_path), list_remaining_processes(tmp_path)) == ([], [])


def test_what_is_no_copy_stays(tmp_path: Path) -> None:
    """Logs of workers and other files that look similar are kept."""
    text = f"environ({{'HF_TOKEN': '{SECRET}'}})\n"
    for name in ("envlog.0", "envlog.init.3", "backup_env.12.json", "default.abcdef.log"):
        (tmp_path / name).write_text(text)
    for name in ("workerlog.0", "launcher.log", "backup_env.json"):
        (tmp_path / name).write_text(text)
    (tmp_path / "default.gpu.log").write_text("index,uuid\n")
    container_agent.remove_environment_dumps(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {
        "workerlog.0",
        "launcher.log",
        "backup_env.json",
        "default.gpu.log",
    }
