"""Snapshots that earlier versions wrote stay readable, and are judged without new failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.collect.snapshot import load_snapshot
from launch.runs import run_index
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "data" / "recorded"


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_snapshot_is_read(path: Path) -> None:
    """Each answer that was recorded is there."""
    answers, _ = load_snapshot(path)

    assert set(answers) == set(json.loads(path.read_text())["answers"])


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["atlas-800t-a2", "bi-v150x8", "h200x8"])
def test_snapshot_is_judged(machine: str) -> None:
    """What was healthy is judged in full, and is healthy."""
    argv = [sys.executable, "-m", "envcheck", "doctor", "--replay", str(RECORDED / "0.1" / f"{machine}.json"), "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)

    statuses = [finding["status"] for finding in json.loads(done.stdout)["findings"]]
    assert "FAIL" not in statuses and "UNKNOWN" not in statuses
    assert statuses.count("OK") > 50


def test_every_version_is_there() -> None:
    """A released version has recordings of at least three vendors."""
    assert all(len(list(folder.glob("*.json"))) >= 3 for folder in RECORDED.iterdir())
    assert (RECORDED / "0.1").is_dir()


RUNS = RECORDED / "0.1" / "runs"
FINISHED, FAILED = "20261129-110041-train-1bed", "20261129-110046-train-0b78"


def run_on_records(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_records_of_runs_are_read() -> None:
    """Each record of an earlier version is a run with its end and its losses."""
    runs = {run.id: run for run in run_index.list_runs(RUNS)}

    assert {name: run.state for name, run in runs.items()} == {FINISHED: "succeeded", FAILED: "failed"}
    assert {name: run.said["exit"]["code"] for name, run in runs.items()} == {FINISHED: 0, FAILED: 5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("runs", "--runs", str(RUNS)), 0, FAILED),
        (("runs", "--runs", str(RUNS), "--json"), 0, FINISHED),
        (("runs", "show", FINISHED, "--runs", str(RUNS)), 0, "0.625"),
        (("runs", "show", FAILED, "--runs", str(RUNS), "--json"), 0, "out of memory"),
        (("runs", "compare", FINISHED, FAILED, "--runs", str(RUNS)), 0, FAILED),
        (("explain", str(RUNS / FAILED)), 1, "out of memory"),
        (("explain", str(RUNS / FINISHED)), 0, "succeeded"),
    ],
)
def test_records_of_runs_are_shown(words: tuple[str, ...], code: int, expected: str) -> None:
    """Commands that read records take those of an earlier version."""
    done = run_on_records(*words)

    assert (done.returncode, expected in done.stdout) == (code, True), done.stdout + done.stderr
