"""Runs program.py in child processes: collects its answers, and stops a child that prints nothing for too long."""

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

from envcheck.core.messages import Message, _, join, verbatim
from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact_text
from envcheck.deep.interpreter import LOG_BYTES, CommandTarget, DeepResult, PythonInterpreter, Sizes

PROGRAM = Path(__file__).with_name("program.py")  # in the same folder as the kits
LOG_LINES = 8
FOLDER = "allreduce"  # in the target's work folder, where the ranks write their answers
Say = Callable[[str], None]


def query_framework(interpreter: PythonInterpreter, sizes: Sizes) -> DeepResult:
    """Return the framework's version and how many devices it finds."""
    done, answers, late = _run_child(interpreter, sizes, {"what": "look"}, lambda line: None)
    found = next((answer for answer in answers if "version" in answer), None)
    return DeepResult("look", (), found) if found else _describe_lost_test("look", (), done, late)


def run_card_tests(
    interpreter: PythonInterpreter,
    sizes: Sizes,
    tests: Sequence[str],
    memory_mib: Mapping[int, int],
    say: Say,
    label: Mapping[int, str],
) -> Iterator[DeepResult]:
    """Run the tests on each card, one card after the other; `memory_mib` is how much of each to fill, by framework
    index.

    `label` are the vendor tool's names of the cards for the progress lines that `say` receives.
    """
    asked = {"what": "cards", "tests": list(tests), "memory_mib": {str(n): mib for n, mib in memory_mib.items()}}
    yield from _run_units(interpreter, sizes, asked, [[n] for n in memory_mib], say, label)


def run_peer_tests(
    interpreter: PythonInterpreter, sizes: Sizes, pairs: Sequence[tuple[int, int]], say: Say, label: Mapping[int, str]
) -> Iterator[DeepResult]:
    """Run the copy test on each pair of cards, given by framework index, one pair after the other."""
    yield from _run_units(interpreter, sizes, {"what": "peer"}, [list(pair) for pair in pairs], say, label)


def run_allreduce(interpreter: PythonInterpreter, sizes: Sizes, count: int, timed: bool) -> list[DeepResult]:
    """Run an all-reduce with one rank per card; return one result per rank, or one failed result.

    Each run has its own seed, so that files of an earlier run are not taken for answers.
    """
    seed, target = random.SystemRandom().randrange(1, 1000), interpreter.target
    for _unused in (1, 2):
        folder = target.make_empty_folder(FOLDER)
        asked = _build_request(
            interpreter, sizes, {"what": "allreduce", "folder": folder, "seed": seed, "timed": timed}
        )
        words = (*interpreter.launch(folder, count), _copy_program(interpreter, folder), json.dumps(asked))
        whole_s = sizes.start_s + sizes.patience_s + sizes.grace_s
        done = target.run_command(interpreter.wrap((target.python, *words)), timeout_s=whole_s, env=interpreter.env)
        log = "\n".join([done.out, done.err, *(target.read_file(name) for name in _list_logs(target, f"{folder}/log"))])
        port_taken = done.status != 0 and "ddress already in use" in log
        if not port_taken:  # paddle chooses a free port and binds it later: another program may take it
            break
    answers = [_parse_object(target.read_file(f"{folder}/rank-{rank}.json")) for rank in range(count)]
    answers = [answer if answer.get("seed") == seed else {} for answer in answers]
    if done.status == 0 and all(answers):
        return [DeepResult("allreduce", (rank,), answer) for rank, answer in enumerate(answers)]
    silent = tuple(rank for rank, answer in enumerate(answers) if not answer)
    hung = done.hung or _TIMEOUT in log
    error = _("the port was in use in both attempts") if port_taken else _describe_exit(done)
    return [DeepResult("allreduce", silent, error=error, hung=hung, evidence=_select_last_lines(log))]


_TIMEOUT = "Timeout ("  # printed by faulthandler


def _run_units(
    interpreter: PythonInterpreter,
    sizes: Sizes,
    asked: Mapping[str, Any],
    units: list[list[int]],
    say: Say,
    label: Mapping[int, str],
) -> Iterator[DeepResult]:
    """Run all units in one process; if it is lost, a new process continues after the unit that was running."""

    def progress(line: str) -> None:
        for each in _parse_line(line):
            if "begin" in each:
                cards = [label.get(n, str(n)) for n in each["cards"]]
                say(_("{test}: {cards}", test=each["begin"], cards=join(" → ", cards)))

    while units:
        done, answers, late = _run_child(interpreter, sizes, {**asked, "units": units}, progress)
        for each in answers:
            if "did" in each:
                figures = {k: v for k, v in each.items() if k not in ("did", "cards", "error")}
                yield DeepResult(str(each["did"]), tuple(each["cards"]), figures, str(each.get("error", "")))
        if any(each.get("end") for each in answers):
            return
        started = [each for each in answers if "begin" in each]
        unit = started[-1]["cards"] if started else units[0]
        yield _describe_lost_test(str(started[-1]["begin"]) if started else "start", tuple(unit), done, late)
        units = units[units.index(unit) + 1 :] if unit in units else []


def _run_child(
    interpreter: PythonInterpreter, sizes: Sizes, asked: Mapping[str, Any], on_line: Say
) -> tuple[CommandResult, list[dict[str, Any]], bool]:
    """Return how the child ended, its answers, and whether it was stopped because it printed nothing for too long."""
    program = _copy_program(interpreter, interpreter.target.make_empty_folder("deep"))
    argv = interpreter.wrap((interpreter.target.python, program, json.dumps(_build_request(interpreter, sizes, asked))))
    silence = _SilenceWatch(sizes, lambda: interpreter.target.stop_command(argv))

    def on_output(line: str) -> None:
        silence.note_line(bool(_parse_line(line)))
        on_line(line)

    with silence:
        tests = 3 * len(asked.get("units", ())) + 1
        whole_s = sizes.start_s + (sizes.patience_s + sizes.grace_s) * tests
        done = interpreter.target.run_command(argv, timeout_s=whole_s, env=interpreter.env, on_line=on_output)
    late = silence.ended or done.hung or _TIMEOUT in done.err
    return done, [each for line in done.out.splitlines() for each in _parse_line(line)], late


def _copy_program(interpreter: PythonInterpreter, folder: str) -> str:
    """Copy the program and its framework's module to the target, and return the program's path there."""
    for name in ("program.py", f"{interpreter.kit}_kit.py"):
        interpreter.target.write_file(f"{folder}/{name}", PROGRAM.with_name(name).read_text("utf-8"))
    return f"{folder}/program.py"


def _build_request(interpreter: PythonInterpreter, sizes: Sizes, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {**interpreter.framework, **vars(sizes), **asked}


class _SilenceWatch:
    """Stops a child that prints nothing for too long; runs in a thread, because a hung child causes no event."""

    def __init__(self, sizes: Sizes, end: Callable[[], None]) -> None:
        self.longest_s, self.end, self.ended = sizes.start_s + sizes.grace_s, end, False
        self._then_s = sizes.patience_s + sizes.grace_s
        self._since, self._over = time.monotonic(), threading.Event()

    def note_line(self, by_program: bool) -> None:
        """Restart the clock; after the first line of our program, the shorter limit applies."""
        self.longest_s = self._then_s if by_program else self.longest_s
        self._since = time.monotonic()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch_silence, daemon=True).start()

    def __exit__(self, *_unused: object) -> None:
        self._over.set()

    def _watch_silence(self) -> None:
        while not self._over.wait(min(0.5, self.longest_s)):
            if time.monotonic() - self._since > self.longest_s:
                self.ended = True
                with contextlib.suppress(Exception):
                    self.end()


def _parse_line(line: str) -> list[dict[str, Any]]:
    found = _parse_object(line.partition("ENVCHECK ")[2]) if line.startswith("ENVCHECK ") else {}
    return [found] if found else []


def _parse_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _describe_lost_test(test: str, cards: tuple[int, ...], done: CommandResult, late: bool) -> DeepResult:
    return DeepResult(
        test,
        cards,
        error=_describe_exit(done),
        hung=late,
        lost=True,
        evidence=_select_last_lines(f"{done.out}\n{done.err}"),
    )


def _describe_exit(done: CommandResult) -> Message:
    """Return how the process ended, from a shell's exit status (128 + signal) or from Python's (negative)."""
    number = -done.status if done.status < 0 else done.status - 128
    if done.absent:
        return verbatim(done.err)
    try:
        return _("process terminated by {name}", name=signal.Signals(number).name)
    except ValueError:
        return _("process exited with code {status}", status=done.status)


def _select_last_lines(log: str) -> tuple[str, ...]:
    """Return the last lines of the log, without the program's answers."""
    lines = [line.strip() for line in redact_text(log[-LOG_BYTES:]).splitlines()]
    relevant = [line for line in lines if re.search(r"\w", line) and not line.startswith("ENVCHECK ")]
    return tuple(line[:160] for line in relevant[-LOG_LINES:])


def _list_logs(target: CommandTarget, folder: str) -> list[str]:
    """Return the log files of the ranks: paddle writes workerlog.0, torch RUN/attempt_0/0/stderr.log."""
    top = target.list_folder(folder)
    nested = [f"{name}/attempt_0/0/stderr.log" for name in top if not name.startswith("workerlog")]
    return [f"{folder}/{name}" for name in [*(name for name in top if name.startswith("workerlog.")), *nested]]
