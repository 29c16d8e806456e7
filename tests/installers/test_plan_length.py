"""A plan fits on a screen: each step in short, details with -v."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from click.testing import Result

MOST_LINES = 45


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("atlas-800t-a2", ("--model", "21b", "--device", "npu")),
        ("atlas-200t-a2-box16", ("--model", "300b")),
        ("bi-v150x8", ("--model", "21b")),
        ("h200x8", ("--model", "21b")),
        ("p800x8", ("--model", "21b")),
        ("cpu", ("--device", "cpu")),
    ],
)
def test_plan_fits_on_a_screen(
    run_on: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, machine: str, words: tuple[str, ...]
) -> None:
    """In 100 columns; -v is longer, and starts with the same steps."""
    monkeypatch.setattr(
        "installers.output.plan_text.shutil.get_terminal_size", lambda fallback: os.terminal_size((100, 24))
    )
    short, long = (run_on(machine, "provision", *words, "--dry-run", *more).stdout for more in ((), ("-v",)))

    assert short.count("\n") <= MOST_LINES
    assert short.count("  step ") == long.count("  step ") > 0
    assert "add -v" in short and "add -v" not in long and "undo: " in long
