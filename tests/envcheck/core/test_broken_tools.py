"""Tools that cannot start, print too much, or leave a child behind that holds their output."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envcheck.checks.software import driver_tool
from envcheck.collect import facts
from envcheck.collect.host import commands
from envcheck.collect.host.answers import CollectorHost
from envcheck.core import process
from envcheck.core.model import Answer, Outcome, Question

RunTool = Callable[[list[str]], Any]


def run_here(argv: list[str]) -> Any:
    """As envcheck runs a tool on this host."""
    return process.run_command(argv, timeout_s=120, output_limit=commands.OUTPUT_LIMIT)


def run_remote(argv: list[str]) -> Any:
    """As the collector runs it on another host."""
    return commands.run_command(argv, 120)


def describe_answer(run: RunTool, *argv: str) -> str:
    """Return how the check of the vendor tool describes what the tool did."""
    found = CollectorHost((), lambda words, _timeout_s: run(words)).answer("run", argv, 120)
    answer = Answer("run", Outcome(found["outcome"]), found["out"], found["err"], found["status"])
    return str(driver_tool._describe_failure(argv[0], answer))


both = pytest.mark.parametrize("run", [run_here, run_remote], ids=["here", "remote"])


def write_program(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@both
def test_a_tool_that_ended_has_answered(run: RunTool, tmp_path: Path) -> None:
    """A child that holds the streams does not make its parent a tool that hangs."""
    held = f"sleep 300 & echo $! > {tmp_path}/child; echo the answer; exit 3"

    done = run(["sh", "-c", held])
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)

    assert (done.status, done.hung, done.out) == (3, False, "the answer\n")


@both
def test_a_tool_that_prints_too_much_is_stopped_and_named(run: RunTool) -> None:
    """Endless output is cut at the limit; the result says so, and is not a deadline."""
    done = run([sys.executable, "-c", "while True: print('0' * 9999)"])

    assert (done.status, done.hung) == (125, False)
    assert len(done.out) == commands.OUTPUT_LIMIT
    assert "printed more than 4 MiB, and was stopped" in done.err


@both
@pytest.mark.parametrize(("text", "reason"), [
    (b"#!/nonexistent/python\n", "the interpreter of {path} does not exist: /nonexistent/python"),
    (b"\x7fELF\x00\x00not a program", "is not a program for this machine (exec format error)"),
    (None, "{path} is a directory"),
])  # fmt: skip
def test_what_cannot_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None, reason: str, run: RunTool
) -> None:
    """A missing interpreter, a program of another machine and a folder are not a missing tool, on remote hosts too."""
    path = tmp_path / "npu-smi"
    path.mkdir() if text is None else write_program(path, text)
    monkeypatch.setenv("PATH", str(tmp_path))

    done = run(["npu-smi", "info"])

    assert (done.status, done.absent) == (126, False)
    assert reason.format(path=path) in done.err
    assert describe_answer(run, "npu-smi", "info").startswith("npu-smi cannot be started: ")


@both
@pytest.mark.parametrize("status", [124, 125, 126, 127])
def test_an_exit_status_is_the_tool_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, run: RunTool
) -> None:
    """A tool can exit with each status that envcheck, the shell and timeout use for what they observed."""
    write_program(tmp_path / "npu-smi", f"#!/bin/sh\necho broken >&2\nexit {status}\n".encode())
    monkeypatch.setenv("PATH", str(tmp_path))

    assert describe_answer(run, "npu-smi", "info") == f"npu-smi exited with status {status}"


@both
def test_a_tool_that_was_stopped_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunTool) -> None:
    """The check names what happened to a tool that prints without an end."""
    write_program(tmp_path / "npu-smi", b"#!/bin/sh\nexec /usr/bin/yes\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert describe_answer(run, "npu-smi") == "npu-smi printed too much, and was stopped"


@both
def test_a_missing_tool_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunTool) -> None:
    """A name that no folder of PATH has is an absent tool."""
    monkeypatch.setenv("PATH", str(tmp_path))

    done = run(["npu-smi"])

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


@both
def test_a_closed_folder_of_the_path_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunTool
) -> None:
    """After su, PATH may name folders of root: a program that is in none of the others is missing."""
    real = os.stat

    def refuse(path: str | Path, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if str(path).startswith("/closed/"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def fail(*_args: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied", "lspci")

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr("subprocess.Popen", fail)  # root, as which tests may run, may enter every folder
    monkeypatch.setenv("PATH", f"/closed:{tmp_path}")

    done = run(["lspci"])

    assert (done.status, done.absent, done.err) == (127, True, "lspci: not found")
