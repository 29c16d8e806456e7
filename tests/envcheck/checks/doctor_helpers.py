"""A machine that answers from text, and simulated machines, for the tests of facts, checks, report and snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from envcheck.collect import answer_sources
from envcheck.collect.answer_sources import AnswerSource
from envcheck.simulate import faults, simulated_run
from envcheck.simulate import machine_file as described

MACHINES = (
    "atlas-200t-a2-box16",
    "atlas-800t-a2",
    "atlas-800t-a3",
    "bi-v150x8",
    "h200x8",
    "a100x8-mig",
    "dev-4090x1",
    "p800x8",
    "cpu",
)
PATIENCE_S = 1.0  # for a tool that hangs


@contextmanager
def simulate_machine(name: str, wishes: Sequence[str] = ()) -> Iterator[AnswerSource]:
    """Simulate the machine with the faults; a hanging tool takes one second, not its own timeout."""
    ready = faults.apply_faults(described.load_machine(name, None), [faults.parse_fault(wish) for wish in wishes])
    with simulated_run.write_machine_folder(ready, None) as folder:
        answer = answer_sources.simulated_machine(folder)
        limit = PATIENCE_S if "tool-hang" in wishes else 60.0
        yield lambda question: answer(replace(question, timeout_s=min(question.timeout_s, limit)))
