"""A user that is only a number, as containers give them: no account, and HOME is not set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOBODY = """
import pwd, sys
def getpwuid(number):
    raise KeyError(f"getpwuid(): uid not found: {number}")
pwd.getpwuid = getpwuid
from envcheck.cli import main as cli
cli.entry(sys.argv[1:])
"""


def run_without_home(cwd: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    unset = ("HOME", "ENVCHECK_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    around = {**env, "PYTHONPATH": str(ROOT), "RANK": "3", **more}
    return subprocess.run(
        [sys.executable, "-c", NOBODY, *words], cwd=cwd, env=around, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("doctor", "--only", "host.stale_variables"), 0),
        (("doctor", "--fix", "--dry-run", "--only", "host.stale_variables"), 1),
        (("doctor", "--list-checks"), 0),
        (("snapshot", "-o", "s.json"), 0),
        (("explain", "507033"), 0),
    ],
)
def test_what_keeps_nothing_works(words: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """Looking needs no home."""
    done = run_without_home(tmp_path, *words)

    assert done.returncode == code, done.stderr
    assert "envcheck: " not in done.stderr


def test_the_rest_of_the_machine_is_told(tmp_path: Path) -> None:
    """Disks and packages are checked even without the home folder."""
    done = run_without_home(tmp_path, "doctor", "--only", "host.disk", "--only", "host.shm", "--only", "python")

    assert "Error" not in done.stdout + done.stderr
    assert done.returncode in (0, 1, 3) and "host" in done.stdout.lower()


@pytest.mark.slow
@pytest.mark.parametrize("words", [("runs",), ("doctor", "--undo"), ("provision", "--recipe", "tiny-cpu", "--dry-run")])
def test_what_keeps_something_asks_for_a_place(words: tuple[str, ...], tmp_path: Path) -> None:
    """Commands that store files report that they have no folder, and accept one that is named."""
    done = run_without_home(tmp_path, *words)
    placed = run_without_home(tmp_path, *words, ENVCHECK_HOME=str(tmp_path / "kept"))

    assert (done.returncode, done.stdout) == (2, "")
    assert "no home directory: HOME is not set" in done.stderr and "next: set HOME, or ENVCHECK_HOME" in done.stderr
    assert placed.returncode == 0, placed.stderr


def test_a_stranger_of_a_home(tmp_path: Path) -> None:
    """A settings folder below a missing home is a usage error that names the variable."""
    done = run_without_home(tmp_path, "doctor", "--list-checks", XDG_CONFIG_HOME="~nobody-of-this-name/x")

    assert done.returncode == 2
    assert done.stderr.startswith("envcheck: XDG_CONFIG_HOME '~nobody-of-this-name/x': no home directory for ~nobody")
