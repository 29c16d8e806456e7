"""`train --resume` with paddle: the model goes on where the stopped run had saved it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.launch.runs.test_runs import run_runs
from tests.launch.test_train import list_remaining_processes, run_train

pytestmark = pytest.mark.extended


def test_resume_of_the_tiny_model(paddle_home: Path, tmp_path: Path) -> None:
    """A run that is stopped after its first checkpoint is resumed from it: the loss begins where it was."""
    done = run_train(paddle_home, tmp_path, "--detach", "--steps", "100000")
    assert done.returncode == 0, done.stderr
    end = time.monotonic() + 300
    while not list(tmp_path.glob("runs/*/output/checkpoint-50")) and time.monotonic() < end:
        time.sleep(0.2)
    stopped = run_runs(paddle_home, tmp_path, "stop", "latest", "--runs", "runs", "--yes")
    assert stopped.returncode == 0, stopped.stderr
    (first,) = (json.loads(path.read_text()) for path in tmp_path.glob("runs/*/run.json"))

    resumed = run_train(paddle_home, tmp_path, "--resume", Path(first["folder"]).name, "--steps", "5", "--json")
    assert resumed.returncode == 0, resumed.stderr
    said = json.loads(resumed.stdout)
    assert f"resumes from {first['folder']}/output/checkpoint-" in resumed.stderr
    assert said["loss"][0][1] < first["loss"][0][1] - 1.5
    assert not list_remaining_processes(tmp_path)
