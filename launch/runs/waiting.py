"""Waiting with a job of a scheduler's, before there are steps to tell."""

from __future__ import annotations

import time
from collections.abc import Callable

from envcheck.core.language import say as spoken
from launch.runs.backends import Look
from launch.runs.run_state import Run

LOOK_EVERY_S = 1.0


def wait(
    run: Run, waits: Callable[[Run], bool], standing: Callable[[Run], str], say: Callable[[str], None], look: Look
) -> Run:
    """As long as it `waits`; each change of its standing is said."""
    told = ""
    while waits(run):
        if (words := standing(run)) != told:
            told = words
            say(f"envcheck: {spoken(words)}")
        time.sleep(LOOK_EVERY_S)
        run = look(run.folder) or run
    return run
