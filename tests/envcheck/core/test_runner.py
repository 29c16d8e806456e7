"""The door to sub-processes, and the questions asked through it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from envcheck.collect import answer_sources
from envcheck.collect.host import work_pool
from envcheck.core import process
from envcheck.core.model import Answer, Outcome, Question


def make_python_argv(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def run_python(code: str, timeout_s: float = 60.0) -> Answer:
    return answer_sources.live_machine()(Question("run", tuple(make_python_argv(code)), timeout_s))


def test_missing_program_is_an_answer() -> None:
    """A missing program gives exit code 127 and an error text, not an exception."""
    done = process.run_command(["no-such-program-of-envcheck"], timeout_s=5)

    assert (done.status, done.absent) == (127, True)
    assert "not found" in done.err


def test_program_that_may_not_run(tmp_path: Path) -> None:
    """A file without the right to run is another answer than a missing one."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")

    done = process.run_command([str(tool)], timeout_s=60)

    assert (done.status, done.absent) == (126, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('yes')", Outcome.ANSWERED),
        ("pass", Outcome.EMPTY),
        ("raise SystemExit(3)", Outcome.FAILED),
        ("import time; time.sleep(60)", Outcome.HUNG),
    ],
)
def test_ends_are_told_apart(code: str, expected: Outcome) -> None:
    """Answered, empty, failed and hung are different answers."""
    assert run_python(code, 1 if expected is Outcome.HUNG else 60).outcome is expected


@pytest.mark.slow
def test_deadline_reaches_grandchildren() -> None:
    """What a hung tool started is ended with it."""
    code = """
        import subprocess, sys, time
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
        time.sleep(60)
    """
    done = process.run_command(make_python_argv(code), timeout_s=8)

    assert done.hung
    pid = int(done.out)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_daemon_that_holds_the_pipe_does_not_hold_us() -> None:
    """A child that closes its output and lives on is ended at the deadline."""
    began = time.monotonic()
    done = process.run_command(
        make_python_argv("import os, time; os.close(1); os.close(2); time.sleep(600)"), timeout_s=1
    )

    assert done.hung
    assert time.monotonic() - began < 300


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that prints without end fills no memory, and does not block on a full pipe."""
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 1000)

    done = process.run_command(make_python_argv("print('x' * 1_000_000)"), timeout_s=10)

    assert (done.status, len(done.out)) == (0, 1000)


def test_lines_as_they_come() -> None:
    """Both streams are handed on line by line."""
    seen: list[str] = []
    process.run_command(
        make_python_argv("import sys; print('a'); print('b'); print('c', file=sys.stderr)"),
        timeout_s=10,
        on_line=seen.append,
    )

    assert sorted(seen) == ["a", "b", "c"]


@pytest.mark.slow
def test_interrupt_ends_the_child() -> None:
    """Ctrl-C while a tool runs leaves no child behind."""
    code = """
        import os, signal, sys, threading
        from envcheck.core import process as runner
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            runner.run_command([sys.executable, "-c", "import time; time.sleep(61)"], timeout_s=60)
        except KeyboardInterrupt:
            import psutil
            sys.exit(len(psutil.Process().children(recursive=True)))
        sys.exit(99)
    """
    assert subprocess.run(make_python_argv(code), timeout=300).returncode == 0


def test_no_standard_input() -> None:
    """A tool that reads standard input gets end-of-file and does not hang."""
    assert run_python("import sys; print(repr(sys.stdin.read()))").out.strip() == "''"


def test_simulated_machine_knows_only_its_own(tmp_path: Path) -> None:
    """On a simulated machine a tool of this machine is absent, and files come from its root."""
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/x").write_text("seen")
    (tmp_path / "bin").mkdir()
    ask = answer_sources.simulated_machine(tmp_path)

    assert ask(Question("run", ("sh", "-c", "true"))).outcome is Outcome.ABSENT
    assert ask(Question("read", ("/etc/x",))).out == "seen"
    assert ask(Question("read", ("/etc/passwd",))).outcome is Outcome.ABSENT
    assert ask(Question("list", ("/etc/*",))).out == "/etc/x"


def test_recorded_machine_says_what_was_never_asked() -> None:
    """A command or file missing from the recording is reported as absent, not as an exception."""
    question = Question("run", ("npu-smi", "info"))
    known = Answer(question.key, Outcome.ANSWERED, "text")
    ask = answer_sources.recorded_machine({question.key: known})

    assert ask(question) == known
    assert ask(Question("run", ("other",))).outcome is Outcome.ABSENT


def test_questions_run_at_once() -> None:
    """As many questions as there are threads are out before the first of them is answered."""
    together = threading.Barrier(work_pool.THREADS)

    def ask(question: Question) -> Answer:
        together.wait(300)
        return Answer(question.key, Outcome.ANSWERED)

    questions = [Question("run", ("tool", str(n)), 60) for n in range(2 * work_pool.THREADS)]

    assert len(answer_sources.ask_all(ask, questions)) == len(questions)


@pytest.mark.slow
def test_group_is_ended_even_when_it_ignores_sigterm(tmp_path: Path) -> None:
    """A child that ignores SIGTERM is killed."""
    deaf = "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = process.start_process(
        make_python_argv(f"{deaf}; pathlib.Path({str(tmp_path / 'deaf')!r}).touch(); time.sleep(600)")
    )
    until = time.monotonic() + 60
    while not (tmp_path / "deaf").exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.terminate_group(child, grace_s=0.5)

    assert child.returncode == -signal.SIGKILL


def test_those_that_wait_do_not_keep_others_from_beginning() -> None:
    """All calls start before the first one ends, up to the worker limit; results keep the order of the calls."""
    together = threading.Barrier(work_pool.THREADS)

    def waiting(n: int) -> int:
        together.wait(300)
        return n

    jobs = [partial(waiting, n) for n in range(2 * work_pool.THREADS)]

    assert answer_sources.run_in_parallel(jobs) == list(range(len(jobs)))
