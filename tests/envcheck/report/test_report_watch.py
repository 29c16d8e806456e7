"""doctor --watch in a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[3]
LEAVES = "\x1b[?1049l"  # the terminal's other screen is left, so that what was there before is back


def start_watch(
    place: Path, *words: str, machine: str = "atlas-800t-a2", height: int = 40, lang: str = "en"
) -> pexpect.spawn:
    ours = [sys.executable, "-m", "envcheck"]
    argv = ["-m", "envcheck", "simulate", machine, *words, "--", *ours, "doctor", "--watch", "1", "--lang", lang]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    return pexpect.spawn(
        sys.executable, argv, cwd=str(place), env=env, encoding="utf-8", timeout=120, dimensions=(height, 90)
    )


def read_to_end(child: pexpect.spawn) -> tuple[str, int]:
    child.expect(pexpect.EOF)
    said: str = child.before
    child.close()
    return said, child.exitstatus


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "verdict", "code"), [((), "Ready to train.", 0), (("--fault", "shm-small"), "Not ready to train.", 1)]
)
def test_refreshes_until_ctrl_c(tmp_path: Path, faults: tuple[str, ...], verdict: str, code: int) -> None:
    """It looks again and again; Ctrl-C leaves the last report in the terminal, and the verdict's exit code."""
    child = start_watch(tmp_path, *faults)
    for _ in range(3):
        child.expect_exact("press Ctrl-C to exit")
    child.sendintr()
    said, status = read_to_end(child)

    assert status == code
    assert verdict in said.split(LEAVES)[1]
    assert "Traceback" not in said


def test_low_terminal_keeps_the_verdict(tmp_path: Path) -> None:
    """In a low terminal, the verdict stays at the top and the hidden lines are counted."""
    child = start_watch(tmp_path, "--fault", "shm-small", height=14)
    child.expect_exact("Not ready to train.")
    child.expect("more lines; run envcheck doctor")
    child.sendintr()

    assert read_to_end(child)[1] == 1


def test_chinese_stays_chinese_in_the_other_screen(tmp_path: Path) -> None:
    """What is refreshed is written in the terminal's own signs: Chinese and marks, nothing replaced."""
    child = start_watch(tmp_path, lang="zh")
    child.expect_exact("按 Ctrl-C 退出")
    shown = child.before
    child.sendintr()

    assert "满足训练条件。" in shown and "✓" in shown and "??" not in shown
    assert read_to_end(child)[1] == 0


def test_asked_to_end(tmp_path: Path) -> None:
    """A polite kill ends it as Ctrl-C does: the terminal is as it was."""
    child = start_watch(tmp_path, machine="cpu")
    child.expect_exact("press Ctrl-C to exit")
    os.kill(int(_list_children(child.pid)[0]), signal.SIGTERM)
    said, status = read_to_end(child)

    assert (status, LEAVES in said) == (0, True)


def _list_children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize(
    "words", [(), ("--json",), ("-o", "a.html"), ("--format", "table"), ("--fix",), ("--replay", "a.json")]
)
def test_refused_where_it_makes_no_sense(words: tuple[str, ...], tmp_path: Path) -> None:
    """Without a terminal, or with a conflicting option, it is rejected with a next step."""
    argv = [sys.executable, "-m", "envcheck", "doctor", *words, "--watch"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout == "") == (2, "--json" not in words)
    assert done.stderr.startswith("envcheck: --") and "next: " in done.stderr
