"""The pages that `man` shows are what the commands say of themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[3] / "docs" / "man"
GROFF = ("groff", "-man", "-ww", "-Tutf8", "-P", "-cbou")  # without bold and underlined letters


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """In a process of their own: another test of this one may have chosen another language."""
    subprocess.run([sys.executable, "-m", "envcheck.cli.manual", str(tmp_path)], check=True, timeout=120)
    return tmp_path


def test_current(made: Path) -> None:
    """python -m envcheck.cli.manual docs/man, in English, made the pages that are kept; none is left over."""
    kept, now = ({path.name: path.read_text(encoding="utf-8") for path in place.glob("*")} for place in (PLACE, made))

    assert set(kept) == set(now)
    assert [name for name, text in now.items() if kept[name] != text] == []


def test_read_by_troff(made: Path) -> None:
    """groff has nothing against them, and each has a name, a synopsis and its options."""
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    for page in made.iterdir():
        done = subprocess.run([*GROFF, str(page)], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), page.name
        assert all(section in done.stdout for section in ("NAME", "SYNOPSIS", "OPTIONS")), page.name
