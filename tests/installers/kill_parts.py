"""Run the command and end it by SIGKILL when the journal records that a step begins or is done."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = """
import os, signal, sys
from installers.state import journal
wanted, when, write = (sys.argv[1], sys.argv[2]), sys.argv[3], journal.write_entry
def cut(environment, step, event, **more):
    if (step, event) == wanted and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    write(environment, step, event, **more)
    if (step, event) == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
journal.write_entry = cut
from envcheck.cli import main
main.entry(sys.argv[4:])
"""
# Before it is begun, begun and nothing done, all of it done and not noted, noted as done and nothing after that.
BOUNDARIES = (("begun", "before"), ("begun", "after"), ("done", "before"), ("done", "after"))


def kill_at_boundary(
    argv: Sequence[str], step: str, event: str, when: str, env: Mapping[str, str], folder: Path
) -> None:
    """Run `argv` (python -m envcheck ...), which must not get to its end."""
    words = [*argv[: argv.index("-m")], "-c", COMMAND, step, event, when, *argv[argv.index("envcheck") + 1 :]]
    done = subprocess.run(
        words, cwd=folder, env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip

    assert done.returncode == -signal.SIGKILL, f"{step} {event} {when}: {done.returncode} {done.stdout} {done.stderr}"
