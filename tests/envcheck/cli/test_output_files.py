"""A file that cannot be written is wrong usage for every command: exit code 2 and one clear sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from envcheck.core import local_files
from envcheck.core.errors import UsageError
from tests.simulated_machines import on_machine, run_on

__all__ = ("on_machine", "run_on")
Run = Callable[..., Result]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(local_files.__file__).parents[2])}
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


@pytest.mark.parametrize(
    "words",
    (
        ("snapshot", "--device", "cpu", "-o"),
        ("recipes", "create", "--device", "cpu", "-o"),
        ("provision", "--device", "cpu", "--dry-run", "--lock"),
        ("pyz", "-o"),
    ),
)
def test_one_owner_of_the_message(run_on: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A directory in place of the file is refused before any work, in the same words by every command."""
    (tmp_path / "x.toml").mkdir()
    (tmp_path / "run.sh").write_text("python train.py\n")
    more = ("--", "python", "train.py") if words[0] == "recipes" else ()
    caught = run_on("cpu", *words, str(tmp_path / "x.toml"), *more).exception

    assert isinstance(caught, UsageError)
    assert str(tmp_path / "x.toml") in str(caught.message)
    assert list(tmp_path.glob(".*")) == []


def test_a_new_file_is_not_replaced(tmp_path: Path) -> None:
    """A file that must be new is refused if there is one, also at the end of a link, and stays as it is."""
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("there", "link"):
        with pytest.raises(UsageError, match="already exists"):
            local_files.write_file(tmp_path / name, "other", is_new=True)
    local_files.write_file(tmp_path / "new", "text", 0o600, is_new=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "new", "there"]
    assert ((tmp_path / "there").read_text(), (tmp_path / "new").read_text()) == ("mine", "text")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


WRITER = """
import pathlib, sys
from envcheck.core import local_files
print("before")
local_files.check_writable(pathlib.Path(sys.argv[1]))
local_files.write_file(pathlib.Path(sys.argv[1]), "the report\\n")
print("after")
"""


@pytest.mark.parametrize("name", ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"))
@pytest.mark.parametrize(("mode", "earlier"), (("a", "earlier\n"), ("w", "")))
def test_the_output_in_a_file_is_continued(tmp_path: Path, name: str, mode: str, earlier: str) -> None:
    """`-o /dev/stdout >> log` and `> log` keep what the log has, and what is printed later, in this order."""
    log = tmp_path / "log"
    log.write_text("earlier\n")
    (tmp_path / "link").symlink_to("/dev/stdout")
    with log.open(mode) as file:
        subprocess.run([sys.executable, "-c", WRITER, name], cwd=tmp_path, stdout=file, env=ENVIRONMENT, check=True)

    assert log.read_text() == f"{earlier}before\nthe report\nafter\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "log"]


def test_what_is_no_regular_file_stays(tmp_path: Path) -> None:
    """A pipe is written into; a link is kept, and its target is replaced."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for name in ("pipe", "link"):
            local_files.check_writable(tmp_path / name)
            local_files.write_file(tmp_path / name, "text")

        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "file").read_text()) == (True, "text")
