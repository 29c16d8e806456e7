"""SIGINT, SIGTERM and SIGHUP during a real training: closed terminal, nohup, broken pipe."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.core import signals
from launch.run.process_tree import find_orphan

TRAIN = (sys.executable, "-m", "envcheck", "train", "--model", "tiny", "--method", "lora", "--device", "cpu")


def start_training(home: Path, cwd: Path, steps: int, stderr: int, **more: Any) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ENVCHECK_HOME": str(home), "TERM": "xterm"}
    return subprocess.Popen(
        [*TRAIN, "--steps", str(steps)], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stderr=stderr, **more
    )


def wait_for_output(words: bytes, file: int) -> None:
    seen = b""
    while words not in seen:
        chunk = os.read(file, 4096)
        assert chunk, seen
        seen = (seen + chunk)[-8192:]


def read_record(cwd: Path) -> dict[str, Any]:
    (path,) = (cwd / "runs").glob("*/run.json")
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def test_closed_terminal(paddle_home: Path, tmp_path: Path) -> None:
    """Closing the terminal ends only the view: the supervisor goes on, until the run is stopped."""
    ours, theirs = pty.openpty()
    with start_training(paddle_home, tmp_path, 2000, theirs, start_new_session=True) as child:
        os.close(theirs)
        wait_for_output(b" of 2000", ours)
        os.close(ours)
        child.send_signal(signal.SIGHUP)  # the kernel's, to the session whose terminal it was
        code = child.wait(300)

    assert code == 130
    assert read_record(tmp_path)["state"] == "running"
    stop = [sys.executable, "-m", "envcheck", "runs", "stop", "latest", "--runs", "runs", "--yes"]
    subprocess.run(stop, cwd=tmp_path, env={**os.environ, "ENVCHECK_HOME": str(paddle_home)}, check=True, timeout=300)
    assert (read_record(tmp_path)["state"], read_record(tmp_path)["exit"]["code"]) == ("stopped", 130)
    assert find_orphan(tmp_path / "runs") is None


def test_nohup(paddle_home: Path, tmp_path: Path) -> None:
    """With SIGHUP ignored (nohup) the run outlives the terminal, and a closed pipe does no harm."""
    ours, theirs = os.pipe()
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731 (what nohup does)
    with start_training(paddle_home, tmp_path, 6, theirs, preexec_fn=ignore) as child:
        os.close(theirs)
        wait_for_output(b"step 1 of", ours)
        os.close(ours)
        child.send_signal(signal.SIGHUP)
        code = child.wait(300)

    assert code == 0
    assert read_record(tmp_path)["state"] == "succeeded"
    assert len(read_record(tmp_path)["loss"]) == 6


def test_interrupted_before_it_began(tmp_path: Path) -> None:
    """Ctrl-C during the first imports ends the process as at any other time, without output."""
    (tmp_path / "click.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "envcheck", "recipes"], env=env, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("terminal", (True, False))
def test_interrupted_is_a_line_of_its_own(terminal: bool) -> None:
    """On a terminal "Interrupted" starts on a new line after ^C; elsewhere no blank line precedes it."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    code = "from envcheck.cli import main as cli\ndef hit(**options): raise KeyboardInterrupt\n"
    code += "from envcheck.cli.commands import completion\ncompletion.completion.callback = hit\n"
    code += "cli.entry(['completion', 'bash'])"
    done = subprocess.run([sys.executable, "-c", code], stderr=theirs, timeout=60)
    os.close(theirs)
    said = os.read(ours, 4096).decode().replace("\r", "")
    os.close(ours)

    assert (done.returncode, said) == (130, "\n" * terminal + "envcheck: interrupted\n")


@pytest.mark.parametrize("number", (signal.SIGHUP, signal.SIGQUIT))
@pytest.mark.parametrize("before", (signal.SIG_DFL, signal.SIG_IGN))
def test_ignored_stays_ignored(before: signal.Handlers, number: signal.Signals) -> None:
    """Signals, including SIGQUIT, are handled unless they were ignored; the previous handlers are restored."""
    found: list[int] = []
    usual = signal.signal(number, before)
    try:
        with signals.handle_signals(lambda number, _frame: found.append(number)):
            os.kill(os.getpid(), number)
        after = signal.getsignal(number)
    finally:
        signal.signal(number, usual)

    assert found == ([] if before is signal.SIG_IGN else [number])
    assert after is before


@pytest.mark.parametrize("asks", (True, False))
def test_held_signals_wait(asks: bool) -> None:
    """A Ctrl-C in the middle of a step is raised where the step is over, at the latest at the end, and only there."""
    steps = []
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), signals.defer_signals((signal.SIGINT,)) as deliver:
            deliver()
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("whole")
            if asks:
                deliver()
                steps.append("too late")
    finally:
        after = signal.signal(signal.SIGINT, usual)

    assert steps == ["whole"]
    assert after is signal.default_int_handler


def test_unheard_words_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a broken pipe later output is discarded; any other error is raised."""
    silenced: list[bool] = []
    monkeypatch.setattr(signals, "silence_output", lambda: silenced.append(True))

    with signals.tolerate_lost_output():
        raise BrokenPipeError
    with contextlib.suppress(ValueError), signals.tolerate_lost_output():
        raise ValueError

    assert silenced == [True]
