"""Snapshots that earlier versions wrote stay readable, and are judged without new failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.collect.snapshot import load_snapshot
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
