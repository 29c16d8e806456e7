"""The pages that `man` shows are what the commands say of themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from envcheck.manual import pages

PLACE = Path(__file__).parent.parent / "docs" / "man"
GROFF = ("groff", "-man", "-ww", "-Tutf8", "-P", "-cbou")  # without bold and underlined letters


def test_current() -> None:
    """python -m envcheck.manual docs/man, in English, made the pages that are kept; none is left over."""
    kept = {path.name: path.read_text(encoding="utf-8") for path in PLACE.glob("*.1")}
    made = dict(pages())

    assert set(kept) == set(made)
    assert [name for name, text in made.items() if kept[name] != text] == []


def test_read_by_troff() -> None:
    """groff has nothing against them, and each has a name, a synopsis and its options."""
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    for name, text in pages():
        done = subprocess.run(GROFF, input=text, capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, ""), name
        assert all(section in done.stdout for section in ("NAME", "SYNOPSIS", "OPTIONS")), name
