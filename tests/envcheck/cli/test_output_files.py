"""A file that cannot be written is wrong usage for every command: exit code 2 and one clear sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from envcheck.core import local_files
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
