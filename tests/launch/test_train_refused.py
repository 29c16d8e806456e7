"""`envcheck train` with failed gates: message, exit code, and nothing is started."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.test_train import TRAIN, check_refusal, make_variables, run_train, write_recipe


def test_gate_environment(tmp_path: Path) -> None:
    """Without the environment nothing starts; the command that installs it is printed."""
    done = run_train(tmp_path / "home", tmp_path)

    check_refusal(done, tmp_path, "gate.environment")
    assert "--provision" in done.stderr


def test_gate_data(paddle_home: Path, tmp_path: Path) -> None:
    """Missing or empty data is found before the start."""
    (tmp_path / "empty").touch()

    check_refusal(run_train(paddle_home, tmp_path, "--data", "none"), tmp_path, "gate.data")
    check_refusal(run_train(paddle_home, tmp_path, "--data", "empty"), tmp_path, "gate.data")
    assert run_train(paddle_home, tmp_path, "--data", ".").returncode == 2


def test_gate_port(paddle_home: Path, tmp_path: Path) -> None:
    """A port in use is reported before the start."""
    write_recipe(tmp_path, '"--nproc_per_node"', '"--master", "127.0.0.1:{port}", "--nproc_per_node"')
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        done = run_train(paddle_home, tmp_path, "--recipes", "own", "--port", port)

    check_refusal(done, tmp_path, "gate.port")
    assert port in done.stderr


@pytest.mark.parametrize(
    ("argv", "code"),
    (
        (("--port", "8000"), 2),
        (("--provision", "--into", "/proc/venv", "--yes"), 2 if os.geteuid() else 1),  # root learns it by trying
    ),
)
def test_failure_is_a_document(argv: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """With --json any failure before the start is a document with exit code and error."""
    done = run_train(tmp_path / "home", tmp_path, "--json", *argv)
    said = json.loads(done.stdout)

    assert done.returncode == code, done.stderr
    assert (said["state"], said["exit"]["code"]) == ("unstarted", code)
    assert f"envcheck: {said['error']}" in done.stderr


def test_gate_folder(paddle_home: Path, tmp_path: Path) -> None:
    """A folder that is not writable is named; not even root can create files in /proc."""
    check_refusal(run_train(paddle_home, tmp_path, "--runs", "/proc/runs"), tmp_path, "gate.folder")


def test_gate_folder_that_is_full(paddle_home: Path, tmp_path: Path) -> None:
    """A full disk, simulated by a file size limit, prevents the start."""
    done = subprocess.run(
        TRAIN,
        cwd=tmp_path,
        env=make_variables(paddle_home, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, 16 << 10)),
    )

    check_refusal(done, tmp_path, "gate.folder")


def test_gate_devices(tmp_path: Path) -> None:
    """A job for cards that this machine lacks is exit code 1 with a JSON document."""
    argv = (
        sys.executable,
        "-m",
        "envcheck",
        "train",
        "--model",
        "21b",
        "--method",
        "lora",
        "--device",
        "iluvatar",
        "--json",
    )
    if shutil.which("ixsmi"):
        pytest.skip("this machine has Iluvatar's tools")
    done = subprocess.run(argv, cwd=tmp_path, env=make_variables(tmp_path), capture_output=True, text=True, timeout=120)

    check_refusal(done, tmp_path, "gate.doctor")
    said = json.loads(done.stdout)
    (devices,) = [gate for gate in said["gates"] if gate["name"] == "gate.devices"]
    assert (devices["status"], devices["blocked_by"]) == ("BLOCKED", "driver.tool")
    assert (said["state"], said["exit"]["code"]) == ("refused", 1)
    assert "FAIL" in {gate["status"] for gate in said["gates"]}
