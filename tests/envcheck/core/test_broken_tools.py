"""Tools that cannot start, print too much, or leave a child behind that holds their output."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from envcheck.checks.software import driver_tool
from envcheck.collect import facts
from envcheck.collect.host import commands
from envcheck.core import process
from envcheck.core.errors import describe_start_error
from envcheck.core.model import Answer, Outcome, Question


def write_program(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("run", [
    lambda argv: process.run_command(argv, timeout_s=120, output_limit=commands.OUTPUT_LIMIT),
    lambda argv: commands.run_command(argv, 120),
], ids=["here", "remote"])  # fmt: skip
def test_a_tool_that_ended_has_answered(run: object, tmp_path: Path) -> None:
    """A child that holds the streams does not make its parent a tool that hangs."""
    held = f"sleep 300 & echo $! > {tmp_path}/child; echo the answer; exit 3"

    done = run(["sh", "-c", held])  # type: ignore[operator]
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)

    assert (done.status, done.hung, done.out) == (3, False, "the answer\n")


@pytest.mark.parametrize("run", [
    lambda argv: process.run_command(argv, timeout_s=120, output_limit=commands.OUTPUT_LIMIT),
    lambda argv: commands.run_command(argv, 120),
], ids=["here", "remote"])  # fmt: skip
def test_a_tool_that_prints_too_much_is_stopped_and_named(run: object) -> None:
    """Endless output is cut at the limit; the result says so, and is not a deadline."""
    done = run([sys.executable, "-c", "while True: print('0' * 9999)"])  # type: ignore[operator]

    assert (done.status, done.hung) == (125, False)
    assert len(done.out) == commands.OUTPUT_LIMIT
    assert "printed more than 4 MiB, and was stopped" in done.err


@pytest.mark.parametrize("run", [
    lambda argv: process.run_command(argv, timeout_s=60),
    lambda argv: commands.run_command(argv, 60),
], ids=["here", "remote"])  # fmt: skip
@pytest.mark.parametrize(("text", "reason"), [
    (b"#!/nonexistent/python\n", "the interpreter of {path} does not exist: /nonexistent/python"),
    (b"\x7fELF\x00\x00not a program", "is not a program for this machine (exec format error)"),
    (None, "{path} is a directory"),
])  # fmt: skip
def test_what_cannot_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None, reason: str, run: object
) -> None:
    """A missing interpreter, a program of another machine and a folder are not a missing tool, on remote hosts too."""
    path = tmp_path / "npu-smi"
    path.mkdir() if text is None else write_program(path, text)
    monkeypatch.setenv("PATH", str(tmp_path))

    done = run(["npu-smi", "info"])  # type: ignore[operator]

    assert (done.status, done.absent) == (126, False)
    assert reason.format(path=path) in done.err
    tool = Answer("run npu-smi info", Outcome.FAILED, status=done.status, err=done.err)
    assert driver_tool._describe_failure("npu-smi", tool).startswith("npu-smi cannot be started: ")


def test_a_missing_tool_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no folder of PATH has is an absent tool."""
    monkeypatch.setenv("PATH", str(tmp_path))

    done = process.run_command(["npu-smi"], timeout_s=60)

    assert (done.status, done.absent, done.err) == (127, True, "npu-smi: not found")


def test_what_answered_within_the_limit_is_kept() -> None:
    """At the time limit, tools that still run are ended and count as hung; other answers stay."""

    def machine(question: Question) -> Answer:
        if question.verb == "run":
            process.run_command(["sleep", "300"], timeout_s=300)
        return Answer(question.key, Outcome.ANSWERED, out="1")

    found = facts.ask_machine(machine, limit_s=1.0)

    hung = [answer for answer in found.values() if answer.outcome is Outcome.HUNG]
    assert hung and all("time limit of 1 s" in answer.err for answer in hung)
    assert any(answer.outcome is Outcome.ANSWERED for answer in found.values())


def test_a_closed_folder_of_the_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After su, PATH may name folders of root: a program that is in none of the others is missing."""
    real = os.stat

    def refuse(path: object, **more: object) -> os.stat_result:
        if str(path).startswith("/closed/"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "stat", refuse)
    err = PermissionError(13, "Permission denied", "lspci")

    assert describe_start_error("lspci", err, f"/closed:{tmp_path}") == ""
