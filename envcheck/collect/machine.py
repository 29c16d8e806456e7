"""Where answers come from: this machine, a simulated one, or a recording.  Each is a function Question → Answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from envcheck.collect.host.answers import SYSROOT, Host
from envcheck.collect.host.work_pool import WorkPool
from envcheck.core import process
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS

Machine = Callable[[Question], Answer]
T = TypeVar("T")


def here() -> Machine:
    """The machine that this process runs on, or the simulated one that `envcheck simulate` put around it."""
    sysroot = os.environ.get(SYSROOT)
    return simulated(Path(sysroot)) if sysroot else live()


def live() -> Machine:
    return _of(Host(tuple(VENDORS.values()), run_program))


def simulated(sysroot: Path) -> Machine:
    """Tools from `sysroot`/bin and nowhere else, files from `sysroot`/root, collectors from `sysroot`/ask/NAME.json."""
    return _of(Host(tuple(VENDORS.values()), run_program, str(sysroot)))


def recorded(answers: Mapping[str, Answer]) -> Machine:
    """Answers from a snapshot; what was never asked there is absent here."""
    return lambda q: answers.get(q.key) or Answer(q.key, Outcome.ABSENT, err="not in the recording")


def ask_all(machine: Machine, questions: Iterable[Question]) -> dict[str, Answer]:
    """All at once; each question has its own deadline, so none holds up the rest."""
    asked = list({q.key: q for q in questions}.values())
    return {a.key: a for a in side_by_side([lambda q=q: machine(q) for q in asked])}  # type: ignore[misc]


def side_by_side(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The jobs' results, in their order."""
    pool, results = WorkPool(), dict[int, T]()
    for n, job in enumerate(jobs):
        pool.submit(lambda n=n, job=job: (n, job()))  # type: ignore[misc]
    for _ in jobs:
        n, result = pool.next_result()
        results[n] = result
    pool.close()
    return [results[n] for n in range(len(jobs))]


def _of(host: Host) -> Machine:
    def answer(question: Question) -> Answer:
        found = host.answer(question.verb, question.what, question.timeout_s)
        outcome = Outcome(found["outcome"])
        return Answer(question.key, outcome, found["out"], found["err"], found["status"], found["elapsed_s"])

    return answer


def run_program(argv: Sequence[str], timeout_s: float) -> process.CommandResult:
    return process.run(argv, timeout_s=timeout_s, env={**os.environ, "LC_ALL": "C.UTF-8"})
