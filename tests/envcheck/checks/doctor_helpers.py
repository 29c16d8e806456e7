"""A machine that answers from text, and simulated machines, for the tests of facts, checks, report and snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from envcheck.collect import machine
from envcheck.collect.machine import Machine
from envcheck.simulate import faults, session
from envcheck.simulate import machine_file as described

MACHINES = (
    "atlas-200t-a2-box16",
    "atlas-800t-a2",
    "atlas-800t-a3",
    "bi-v150x8",
    "h200x8",
    "a100x8-mig",
    "dev-4090x1",
    "cpu",
)
PATIENCE_S = 1.0  # for a tool that hangs


@contextmanager
def simulated(name: str, wishes: Sequence[str] = ()) -> Iterator[Machine]:
    """The machine with the faults; a tool that is told to hang costs a second, not its own deadline."""
    ready = faults.apply(described.load(name, None), [faults.asked(wish) for wish in wishes])
    with session.written(ready, None) as folder:
        answer = machine.simulated(folder)
        limit = PATIENCE_S if "tool-hang" in wishes else 60.0
        yield lambda question: answer(replace(question, timeout_s=min(question.timeout_s, limit)))
