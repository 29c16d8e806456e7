"""Running program.py in child processes: what it says is kept, who says nothing for too long is ended."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact
from envcheck.deep.interpreter import LOG_BYTES, CommandTarget, PythonInterpreter, Said, Sizes

PROGRAM = Path(__file__).with_name("program.py")  # beside the kits
LOG_LINES = 8
FOLDER = "allreduce"  # of the target, where its ranks write
Say = Callable[[str], None]


def look(interpreter: PythonInterpreter, sizes: Sizes) -> Said:
    """Which version it is, and how many devices it sees."""
    done, said, late = _child(interpreter, sizes, {"what": "look"}, lambda line: None)
    told = next((each for each in said if "version" in each), None)
    return Said("look", (), told) if told else _ended("look", (), done, late)


def on_cards(
    interpreter: PythonInterpreter,
    sizes: Sizes,
    tests: Sequence[str],
    memory_mib: Mapping[int, int],
    say: Say,
    label: Mapping[int, str],
) -> Iterator[Said]:
    """The tests of each card, one card after the other."""
    asked = {"what": "cards", "tests": list(tests), "memory_mib": {str(n): mib for n, mib in memory_mib.items()}}
    yield from _one_by_one(interpreter, sizes, asked, [[n] for n in memory_mib], say, label)


def between(
    interpreter: PythonInterpreter, sizes: Sizes, pairs: Sequence[tuple[int, int]], say: Say, label: Mapping[int, str]
) -> Iterator[Said]:
    yield from _one_by_one(interpreter, sizes, {"what": "peer"}, [list(pair) for pair in pairs], say, label)


def together(interpreter: PythonInterpreter, sizes: Sizes, count: int, timed: bool) -> list[Said]:
    """The all-reduce, a rank for each of so many cards; an answer for each rank, else why there is none.  Each run has
    a seed of its own: what another one has left is no answer."""
    seed, target = random.SystemRandom().randrange(1, 1000), interpreter.target
    for _ in (1, 2):
        folder = target.fresh(FOLDER)
        asked = _asked(interpreter, sizes, {"what": "allreduce", "folder": folder, "seed": seed, "timed": timed})
        words = (*interpreter.launch(folder, count), _program(interpreter, folder), json.dumps(asked))
        whole_s = sizes.start_s + sizes.patience_s + sizes.grace_s
        done = target.run(interpreter.wrap((target.python, *words)), timeout_s=whole_s, env=interpreter.env)
        log = "\n".join([done.out, done.err, *(target.read(name) for name in _logs(target, f"{folder}/log"))])
        port_taken = done.status != 0 and "ddress already in use" in log
        if not port_taken:  # paddle chooses a free port and binds it later: somebody else may be quicker
            break
    answers = [_read(target.read(f"{folder}/rank-{rank}.json")) for rank in range(count)]
    answers = [answer if answer.get("seed") == seed else {} for answer in answers]
    if done.status == 0 and all(answers):
        return [Said("allreduce", (rank,), answer) for rank, answer in enumerate(answers)]
    silent = tuple(rank for rank, answer in enumerate(answers) if not answer)
    hung = done.hung or _TIMEOUT in log
    error = "a port was in use, twice" if port_taken else _how(done)
    return [Said("allreduce", silent, error=error, hung=hung, evidence=_last(log))]


_TIMEOUT = "Timeout ("  # faulthandler's word


def _one_by_one(
    interpreter: PythonInterpreter,
    sizes: Sizes,
    asked: Mapping[str, Any],
    units: list[list[int]],
    say: Say,
    label: Mapping[int, str],
) -> Iterator[Said]:
    """A process for all of them; when it is lost, the next one goes on with the cards behind the one that lost it."""

    def progress(line: str) -> None:
        for each in _parsed(line):
            if "begin" in each:
                say(f"{each['begin']}, {' to '.join(label.get(n, str(n)) for n in each['cards'])}")

    while units:
        done, said, late = _child(interpreter, sizes, {**asked, "units": units}, progress)
        for each in said:
            if "did" in each:
                figures = {k: v for k, v in each.items() if k not in ("did", "cards", "error")}
                yield Said(str(each["did"]), tuple(each["cards"]), figures, str(each.get("error", "")))
        if any(each.get("end") for each in said):
            return
        begun = [each for each in said if "begin" in each]
        unit = begun[-1]["cards"] if begun else units[0]
        yield _ended(str(begun[-1]["begin"]) if begun else "start", tuple(unit), done, late)
        units = units[units.index(unit) + 1 :] if unit in units else []


def _child(
    interpreter: PythonInterpreter, sizes: Sizes, asked: Mapping[str, Any], on_line: Say
) -> tuple[CommandResult, list[dict[str, Any]], bool]:
    """How it ended, what it said, and whether it was ended for saying nothing."""
    program = _program(interpreter, interpreter.target.fresh("deep"))
    argv = interpreter.wrap((interpreter.target.python, program, json.dumps(_asked(interpreter, sizes, asked))))
    silence = _Silence(sizes, lambda: interpreter.target.stop(argv))

    def heard(line: str) -> None:
        silence.broken(bool(_parsed(line)))
        on_line(line)

    with silence:
        tests = 3 * len(asked.get("units", ())) + 1
        whole_s = sizes.start_s + (sizes.patience_s + sizes.grace_s) * tests
        done = interpreter.target.run(argv, timeout_s=whole_s, env=interpreter.env, on_line=heard)
    late = silence.ended or done.hung or _TIMEOUT in done.err
    return done, [each for line in done.out.splitlines() for each in _parsed(line)], late


def _program(interpreter: PythonInterpreter, folder: str) -> str:
    """Its path on the target's side, where it and its framework's file now stand."""
    for name in ("program.py", f"{interpreter.kit}_kit.py"):
        interpreter.target.write(f"{folder}/{name}", PROGRAM.with_name(name).read_text("utf-8"))
    return f"{folder}/program.py"


def _asked(interpreter: PythonInterpreter, sizes: Sizes, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {**interpreter.framework, **vars(sizes), **asked}


class _Silence:
    """Ends a child that has said nothing for too long; watched from a thread, since a hung one wakes nobody."""

    def __init__(self, sizes: Sizes, end: Callable[[], None]) -> None:
        self.longest_s, self.end, self.ended = sizes.start_s + sizes.grace_s, end, False
        self._then_s = sizes.patience_s + sizes.grace_s
        self._since, self._over = time.monotonic(), threading.Event()

    def broken(self, by_us: bool) -> None:
        """Something was said; from the first word of our own program on it has started."""
        self.longest_s = self._then_s if by_us else self.longest_s
        self._since = time.monotonic()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(min(0.5, self.longest_s)):
            if time.monotonic() - self._since > self.longest_s:
                self.ended = True
                with contextlib.suppress(Exception):
                    self.end()


def _parsed(line: str) -> list[dict[str, Any]]:
    found = _read(line.partition("ENVCHECK ")[2]) if line.startswith("ENVCHECK ") else {}
    return [found] if found else []


def _read(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _ended(test: str, cards: tuple[int, ...], done: CommandResult, late: bool) -> Said:
    return Said(test, cards, error=_how(done), hung=late, lost=True, evidence=_last(f"{done.out}\n{done.err}"))


def _how(done: CommandResult) -> str:
    """ "was ended by SIGSEGV", in a shell's way of telling or in ours."""
    number = -done.status if done.status < 0 else done.status - 128
    if done.absent:
        return done.err
    try:
        return f"the process was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"the process ended with status {done.status}"


def _last(log: str) -> tuple[str, ...]:
    """The last words, without answers of ours."""
    lines = [line.strip() for line in redact(log[-LOG_BYTES:]).splitlines()]
    telling = [line for line in lines if re.search(r"\w", line) and not line.startswith("ENVCHECK ")]
    return tuple(line[:160] for line in telling[-LOG_LINES:])


def _logs(target: CommandTarget, folder: str) -> list[str]:
    """Files of ranks: paddle has workerlog.0, torch RUN/attempt_0/0/stderr.log."""
    top = target.names(folder)
    nested = [f"{name}/attempt_0/0/stderr.log" for name in top if not name.startswith("workerlog")]
    return [f"{folder}/{name}" for name in [*(name for name in top if name.startswith("workerlog.")), *nested]]
