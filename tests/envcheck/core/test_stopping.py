"""Being asked to stop, and nobody listening: a real training on a terminal that closes, under nohup, into a pipe."""

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


def begin(home: Path, cwd: Path, steps: int, stderr: int, **more: Any) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ENVCHECK_HOME": str(home), "TERM": "xterm"}
    return subprocess.Popen(
        [*TRAIN, "--steps", str(steps)], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stderr=stderr, **more
    )


def wait_for(words: bytes, file: int) -> None:
    seen = b""
    while words not in seen:
        chunk = os.read(file, 4096)
        assert chunk, seen
        seen = (seen + chunk)[-8192:]


def record(cwd: Path) -> dict[str, Any]:
    (path,) = (cwd / "runs").glob("*/run.json")
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def test_closed_terminal(paddle_home: Path, tmp_path: Path) -> None:
    """A terminal that is closed ends the run as Ctrl-C does, and its record says so, though nobody reads our words."""
    ours, theirs = pty.openpty()
    with begin(paddle_home, tmp_path, 2000, theirs, start_new_session=True) as child:
        os.close(theirs)
        wait_for(b" of 2000", ours)
        os.close(ours)
        child.send_signal(signal.SIGHUP)  # the kernel's, to the session whose terminal it was
        code = child.wait(300)

    assert code == 130
    assert (record(tmp_path)["state"], record(tmp_path)["exit"]["code"]) == ("interrupted", 130)
    assert find_orphan(tmp_path / "runs") is None


def test_nohup(paddle_home: Path, tmp_path: Path) -> None:
    """Who started us with SIGHUP ignored wants the run to outlive the terminal; and a reader who left harms nothing."""
    ours, theirs = os.pipe()
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731 (what nohup does)
    with begin(paddle_home, tmp_path, 6, theirs, preexec_fn=ignore) as child:
        os.close(theirs)
        wait_for(b"step 1 of", ours)
        os.close(ours)
        child.send_signal(signal.SIGHUP)
        code = child.wait(300)

    assert code == 0
    assert record(tmp_path)["state"] == "finished"
    assert len(record(tmp_path)["loss"]) == 6


def test_interrupted_before_it_began(tmp_path: Path) -> None:
    """Ctrl-C while the first libraries are read ends it as it ends any program: by the signal, without a word."""
    (tmp_path / "click.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "envcheck", "recipes"], env=env, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("terminal", (True, False))
def test_interrupted_is_a_line_of_its_own(terminal: bool) -> None:
    """Below the ^C of a terminal; where there is none nothing stands before it."""
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
    """A signal, Ctrl-\\ as well, is heard unless it was ignored; and what was in force before is in force again."""
    found: list[int] = []
    usual = signal.signal(number, before)
    try:
        with signals.heard_by(lambda number, _frame: found.append(number)):
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
        with pytest.raises(KeyboardInterrupt), signals.held((signal.SIGINT,)) as deliver:
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
    """The first words that do not arrive silence the rest; any other error is one."""
    silenced: list[bool] = []
    monkeypatch.setattr(signals, "mute", lambda: silenced.append(True))

    with signals.unheard():
        raise BrokenPipeError
    with contextlib.suppress(ValueError), signals.unheard():
        raise ValueError

    assert silenced == [True]
