"""Where answers come from: this machine, a simulated one, or a recording.  Each is a function Question → Answer."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from envcheck.core import process
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS

Machine = Callable[[Question], Answer]
T = TypeVar("T")

SYSROOT = "ENVCHECK_SYSROOT"  # set by `envcheck simulate`: a folder with bin/, root/ and ask/
READ_LIMIT = 1 << 20
FEW_THREADS, THREADS = 4, 32  # of Python, of which one works at a time
PATIENCE_S, LOOK_S = 0.02, 0.1


def here() -> Machine:
    """The machine that this process runs on, or the simulated one that `envcheck simulate` put around it."""
    sysroot = os.environ.get(SYSROOT)
    return simulated(Path(sysroot)) if sysroot else live()


def live() -> Machine:
    return lambda question: _DO[question.verb](question, None)


def simulated(sysroot: Path) -> Machine:
    """Tools from `sysroot`/bin and nowhere else, files from `sysroot`/root, collectors from `sysroot`/ask/NAME.json."""
    return lambda question: _DO[question.verb](question, sysroot)


def recorded(answers: Mapping[str, Answer]) -> Machine:
    """Answers from a snapshot; what was never asked there is absent here."""
    return lambda q: answers.get(q.key) or Answer(q.key, Outcome.ABSENT, err="not in the recording")


def ask_all(machine: Machine, questions: Iterable[Question]) -> dict[str, Answer]:
    """All at once; each question has its own deadline, so none holds up the rest."""
    asked = list({q.key: q for q in questions}.values())
    return {a.key: a for a in side_by_side([lambda q=q: machine(q) for q in asked])}  # type: ignore[misc]


def side_by_side(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The jobs' results, in their order.

    A few threads begin, and twice as many whenever none has ended anything for a while: those that wait for a tool cost
    nothing, but many that are quick stand in each other's way.  Daemon threads and not an executor, which joins its own
    at exit: Ctrl-C must not wait for a tool that hangs.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, T | BaseException, bool]] = queue.SimpleQueue()

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                n = waiting.get_nowait()
                try:
                    done.put((n, jobs[n](), True))
                except BaseException as err:  # told to whoever waits
                    done.put((n, err, False))

    for n in range(len(jobs)):
        waiting.put(n)
    results: dict[int, T] = {}
    threads = 0
    while len(results) < len(jobs):
        more = min(threads or FEW_THREADS, THREADS - threads, waiting.qsize())
        for _ in range(more):
            threading.Thread(target=work, daemon=True).start()
        threads += more
        with contextlib.suppress(queue.Empty):
            while len(results) < len(jobs):
                # by looks: a signal that comes right before one long wait is not seen until it ends
                n, result, good = done.get(timeout=PATIENCE_S if waiting.qsize() and threads < THREADS else LOOK_S)
                if not good:
                    raise result  # type: ignore[misc]
                results[n] = result  # type: ignore[assignment]
    return [results[n] for n in range(len(jobs))]


def _run(question: Question, sysroot: Path | None) -> Answer:
    argv = list(question.what)
    if sysroot:
        found = shutil.which(argv[0], path=str(sysroot / "bin"))
        if not found:
            return Answer(question.key, Outcome.ABSENT, err=f"{argv[0]}: not found", status=process.NOT_FOUND)
        argv[0] = found
    done = process.run(argv, timeout_s=question.timeout_s, env={**os.environ, "LC_ALL": "C.UTF-8"})
    return Answer(question.key, _outcome(done), done.out, done.err, done.status, done.elapsed_s)


def _outcome(done: process.CommandResult) -> Outcome:
    if done.absent:
        return Outcome.ABSENT
    if done.hung:
        return Outcome.HUNG
    if done.status != 0:
        return Outcome.FAILED
    return Outcome.ANSWERED if done.out.strip() or done.err.strip() else Outcome.EMPTY


def _read(question: Question, sysroot: Path | None) -> Answer:
    path = question.what[0]
    return replace(_read_file(sysroot / "root" / path.lstrip("/") if sysroot else Path(path)), key=question.key)


def _read_file(path: Path) -> Answer:
    try:
        with path.open("rb") as file:
            text = file.read(READ_LIMIT).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return Answer("", Outcome.ABSENT, err="no such file")
    except OSError as err:
        return Answer("", Outcome.FAILED, err=err.strerror or str(err))
    return Answer("", Outcome.ANSWERED if text.strip() else Outcome.EMPTY, text)


def _list(question: Question, sysroot: Path | None) -> Answer:
    prefix = str(sysroot / "root") if sysroot else ""
    found = sorted(path.removeprefix(prefix) for path in glob.glob(prefix + question.what[0]))  # noqa: PTH207 (absolute)
    return Answer(question.key, Outcome.ANSWERED if found else Outcome.EMPTY, "\n".join(found))


def _ask(question: Question, sysroot: Path | None) -> Answer:
    name = question.what[0]
    if sysroot:
        return replace(_read_file(sysroot / "ask" / f"{name}.json"), key=question.key)
    from probes.host.collectors import COLLECTORS

    try:
        return Answer(
            question.key, Outcome.ANSWERED, json.dumps(COLLECTORS[name](tuple(VENDORS.values())), sort_keys=True)
        )
    except Exception as err:  # a collector that fails is an answer: the doctor goes on
        return Answer(question.key, Outcome.FAILED, err=f"{name}: {type(err).__name__}: {err}")


_DO = {"run": _run, "read": _read, "list": _list, "ask": _ask}
