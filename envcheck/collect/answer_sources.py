"""Sources of answers: this host, a simulated one, or a recording. Each is a function Question -> Answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from envcheck.collect.host import commands
from envcheck.collect.host.answers import SYSROOT, CollectorHost
from envcheck.collect.host.work_pool import WorkPool
from envcheck.core import process
from envcheck.core.messages import _
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS

NO_ENGINE = "no-engine.sock"  # a socket in that folder which does not exist
PROVISIONED = "provisioned"  # a file in the folder of a simulated machine
AnswerSource = Callable[[Question], Answer]
T = TypeVar("T")


def local_machine() -> AnswerSource:
    """Return the source for this host, or for the simulated one that `envcheck simulate` runs this process in."""
    sysroot = os.environ.get(SYSROOT)
    return simulated_machine(Path(sysroot)) if sysroot else live_machine()


def simulated_root() -> str:
    """Return the folder with the files of the simulated machine, "" on a real one."""
    sysroot = os.environ.get(SYSROOT)
    return str(Path(sysroot) / "root") if sysroot else ""


def has_simulated_engine() -> bool:
    """Return whether the container engine is that of a simulated machine, which runs nothing."""
    return bool(simulated_root()) and os.environ.get("DOCKER_HOST", "").endswith(NO_ENGINE)


def list_simulated_recipes() -> tuple[str, ...]:
    """Return the recipes that are provisioned on the simulated machine; () on a real one."""
    sysroot = os.environ.get(SYSROOT)
    try:
        return tuple((Path(sysroot) / PROVISIONED).read_text("utf-8").split()) if sysroot else ()
    except OSError:
        return ()


def live_machine() -> AnswerSource:
    """Return the source that runs tools and reads files on this host."""
    return _make_source(CollectorHost(tuple(VENDORS.values()), run_program))


def simulated_machine(sysroot: Path) -> AnswerSource:
    """Return a source with tools only from `sysroot`/bin, files from `sysroot`/root, collectors from
    `sysroot`/ask/NAME.json."""
    return _make_source(CollectorHost(tuple(VENDORS.values()), run_program, str(sysroot)))


def recorded_machine(answers: Mapping[str, Answer]) -> AnswerSource:
    """Return a source of a snapshot's answers; a question that is not in it is ABSENT."""
    return lambda q: answers.get(q.key) or Answer(q.key, Outcome.ABSENT, err=_("not in the recording"))


def ask_all(machine: AnswerSource, questions: Iterable[Question]) -> dict[str, Answer]:
    """Return the answers to all questions, asked in parallel; each question has its own deadline."""
    asked = list({q.key: q for q in questions}.values())
    return {a.key: a for a in run_in_parallel([lambda q=q: machine(q) for q in asked])}  # type: ignore[misc]


def run_in_parallel(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of the jobs in order."""
    pool, results = WorkPool(), dict[int, T]()
    for n, job in enumerate(jobs):
        pool.submit(lambda n=n, job=job: (n, job()))  # type: ignore[misc]
    for _unused in jobs:
        n, result = pool.next_result()
        results[n] = result
    pool.close()
    return [results[n] for n in range(len(jobs))]


def _make_source(host: CollectorHost) -> AnswerSource:
    def answer(question: Question) -> Answer:
        found = host.answer(question.verb, question.what, question.timeout_s)
        outcome = Outcome(found["outcome"])
        return Answer(question.key, outcome, found["out"], found["err"], found["status"], found["elapsed_s"])

    return answer


def run_program(argv: Sequence[str], timeout_s: float) -> process.CommandResult:
    """Run a program with LC_ALL=C.UTF-8, so that its output is in English."""
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    return process.run_command(argv, timeout_s=timeout_s, env=env, output_limit=commands.OUTPUT_LIMIT)
