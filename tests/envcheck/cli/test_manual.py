"""The man pages match the help of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GROFF = ("groff", "-man", "-ww", "-Tutf8", "-P", "-cbou")  # without bold and underlined letters


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """In a process of their own: another test of this one may have chosen another language."""
    subprocess.run([sys.executable, "-m", "envcheck.cli.manual", str(tmp_path)], check=True, timeout=120)
    return tmp_path


def test_read_by_troff(made: Path) -> None:
    """groff has nothing against them, and each has a name, a synopsis and its options."""
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    for page in made.iterdir():
        done = subprocess.run([*GROFF, str(page)], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), page.name
        assert all(section in done.stdout for section in ("NAME", "SYNOPSIS", "OPTIONS")), page.name


def test_all_options_by_group(made: Path) -> None:
    """A page has all options of its command; those of a long command are grouped."""
    page = (made / "envcheck-train.1").read_text().replace("\\-", "-")
    sections = [line.removeprefix(".SS ") for line in page.splitlines() if line.startswith(".SS ")]

    assert sections[0] == "Job options" and sections[-1] == "General options" and "Slurm options" in sections
    assert {"--model", "--no-gang", "--requeue-without-bad", "--limit", "--help-all"} <= set(
        re.findall(r"--[\w-]+", page)
    )
    assert ".SS" not in (made / "envcheck-lint.1").read_text()
