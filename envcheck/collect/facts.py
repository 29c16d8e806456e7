"""Asking this machine, or what stands in its place."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.collect.fact_reader import read_facts
from envcheck.collect.host.work_pool import WorkPool
from envcheck.collect.interview import Interview, load_parsers, redact_answers
from envcheck.collect.machine import Machine
from envcheck.core import process
from envcheck.core.facts import Facts, Wanted
from envcheck.core.model import Answer, Question


def gather(
    machine: Machine, device: str = "auto", wanted: Wanted | None = None, more: Iterable[Question] = ()
) -> Facts:
    """Ask, and read.  `device` is a vendor's name, or auto: whichever cards are in the machine."""
    return read_facts(ask(machine, device, more), device, wanted)


def ask(machine: Machine, device: str = "auto", more: Iterable[Question] = ()) -> dict[str, Answer]:
    """All answers by question key, secrets removed; `more` are questions that a site adds.

    Each question goes out as soon as it is known; a tool that hangs costs its own deadline once, since without
    devices there is nothing to follow up.
    """
    interview, pool = Interview(device, more), WorkPool()
    opened = interview.begin()
    with process.no_child_left():
        while True:
            for question in opened:
                pool.submit(lambda question=question: machine(question))  # type: ignore[misc]
            load_parsers(opened)
            if interview.is_over:
                break
            opened = interview.add(pool.next_result())
    pool.close()
    return redact_answers(interview.answers)
