"""Wait for a queued job of a scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable

from envcheck.core.language import translate
from launch.runs.backends import RunReader
from launch.runs.run_state import Run

LOOK_EVERY_S = 1.0


def wait_while_queued(
    run: Run,
    waits: Callable[[Run], bool],
    describe_status: Callable[[Run], str],
    say: Callable[[str], None],
    look: RunReader,
) -> Run:
    """Wait while `waits(run)` is true and print each change of its status; return the run, re-read with `look`."""
    last = ""
    while waits(run):
        if (status := describe_status(run)) != last:
            last = status
            say(f"envcheck: {translate(status)}")
        time.sleep(LOOK_EVERY_S)
        run = look(run.folder) or run
    return run
