"""A file that cannot be written is wrong usage for every command: exit code 2 and one clear sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from envcheck.core.errors import UsageError
from tests.simulated_machines import on_machine, run_on

__all__ = ("on_machine", "run_on")
Run = Callable[..., Result]
ONE_JOB = ("--recipe", "ernie-0.3b-nvidia", "--method", "lora")


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (("snapshot", "-o", "/proc/x.json"), "cannot write /proc/x.json: no write permission on the directory"),
        (("pyz", "-o", "/proc/x"), "cannot write /proc/x: no write permission on the directory"),
        (
            ("bundle", "--device", "cpu", "-o", "/proc/x.tar"),
            "cannot write /proc/x.tar: no write permission on the directory",
        ),
        (("train", *ONE_JOB, "--write", "/dev/full"), "cannot write to /dev/full: not a directory"),
        (
            ("plan", *ONE_JOB, "-o", "absent/x.svg"),
            "cannot write absent/x.svg: no such file or directory",
        ),
        (
            ("plan", "--rows", "jobs.csv", "-o", "x.svg"),
            "-o x.svg: --rows writes a CSV file, not a picture",
        ),
        (("bundle", "--device", "cpu", "-o", "x.tar", "--sign", "."), "--sign .: is a directory"),
    ),
)
def test_a_file_that_cannot_be_written(run_on: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    """The message names the path and the reason; nothing is written."""
    (tmp_path / "jobs.csv").write_text("model,method\n21b,lora\n")
    caught = run_on("h200x8", *words).exception

    assert isinstance(caught, UsageError)
    assert caught.message == message
    assert not (tmp_path / "x.svg").exists()
