"""`envcheck infer --run` uses the run's --into and --recipes from envcheck's own note."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch.runs import request_note
from launch.runs.request_note import RequestNote

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint; its record names an environment, as a foreign record may."""
    folder = tmp_path / "runs" / "20261121-080000-tiny-cpu"
    folder.mkdir(parents=True)
    told = {"schema": 1, "recipe": "tiny-cpu", "model": "tiny", "method": "lora", "device": "cpu"}
    told |= {"state": "succeeded", "container": None, "checkpoints": ["output/checkpoint-5"], "command": []}
    told["options"] = {"into": "/of/a/stranger"}
    (folder / "run.json").write_text(json.dumps(told))
    return folder


def show_script(run: Path, *more: str) -> str:
    argv = [sys.executable, "-m", "envcheck", "infer", "--run", str(run), "--dry-run", "--as-script", *more]
    env = {**os.environ, "ENVCHECK_HOME": str(run.parent.parent / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=run, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_of_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options of `train` apply to the chat, options of `infer` override them, and the record is ignored."""
    monkeypatch.setenv("ENVCHECK_HOME", str(run.parent.parent / "home"))
    alone = show_script(run)
    request_note.save_note(run, RequestNote(Path("/opt/mine"), None))
    noted, again = show_script(run), show_script(run, "--into", "/opt/other")

    assert "/of/a/stranger" not in alone + noted
    assert "/opt/mine/bin/python" not in alone
    assert "/opt/mine/bin/python" in noted
    assert "/opt/other/bin/python" in again
    assert "# Written by envcheck infer --dry-run --as-script." in noted


def test_a_note_that_cannot_be_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Foreign lines are skipped; a missing note is empty."""
    home = run.parent.parent / "home"
    monkeypatch.setenv("ENVCHECK_HOME", str(home))
    assert request_note.read_note(run) == RequestNote()
    request_note.save_note(run, RequestNote(None, Path("/mine")))
    with (home / "runs-said.jsonl").open("ab") as file:
        file.write(b'[]\n\xff{\n{"run": 7}\n' + b"[" * 100_000 + b"\n")

    assert request_note.read_note(run) == RequestNote(None, Path("/mine"))
