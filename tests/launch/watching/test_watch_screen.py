"""The full screen of a run: fitted to any terminal as plain lines, drawn on a real one, and left out where none is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.logs.step import TrainingStep
from launch.watching.page import WatchPage, bar, page
from launch.watching.state import CardSample, CardSamples, RunMoment

pytestmark = pytest.mark.slow

STEPS = tuple(TrainingStep(5 - n / 20, n, of=80, learning_rate=1e-4) for n in range(1, 41))
CARDS = tuple(
    CardSample(str(n), 1024 * (n + 30), 65536, 10.0 * n, power_w=300.5, temperature_c=61.0, health="OK")
    for n in range(16)
)
STATE = RunMoment(
    now=1000.0,
    began_at=400.0,
    grew_at=999.0,
    steps=STEPS,
    marks=tuple((900.0 + 2 * n, n) for n in range(1, 41)),
    samples=(CardSamples(998.0, CARDS),),
)
SHOWN = WatchPage("tiny-npu, lora", STATE, lines=[f"line {n}" for n in range(60)])


def test_what_is_shown() -> None:
    """Head with step, rate and time left; every card with its memory, load, power and health; curve; the log's end."""
    lines = page(SHOWN, 120, 60)
    text = "\n".join(lines)

    assert lines[0] == "tiny-npu, lora  10 min"
    assert lines[1] == "step 40 of 80, loss 3.0000, lr 0.0001, 80 s left"
    assert lines[2].endswith("  50%")
    assert "card 3" in text
    (row,) = [line for line in lines if line.startswith("card 7")]
    assert all(part in row for part in ("37 GiB of 64 GiB", " 70 %", "300 W", "61 C", "OK", "█", "░"))
    assert "*" in text
    assert lines[-1] == "line 59"
    assert len(lines) == 60


def test_small_terminal() -> None:
    """Where there is little room the head stays, then some cards; how many are left out is said."""
    lines = page(SHOWN, 40, 14, unicode=False)

    assert lines[0].startswith("tiny-npu")
    assert "and 12 more" in lines
    assert all(len(line) <= 40 for line in lines)
    assert "".join(lines).isascii()
    assert "line 59" in lines


def test_before_the_first_step() -> None:
    """Without steps, cards and lines there is still a screen."""
    assert page(WatchPage("x", RunMoment(now=5.0, began_at=0.0, grew_at=0.0)), 80, 24) == ["x  5 s", "no step yet", ""]


def test_old_looks_are_said_to_be_old() -> None:
    """Cards whose tool hangs are shown as they were, with the age."""
    old = WatchPage("x", RunMoment(now=500.0, began_at=0.0, grew_at=0.0, samples=(CardSamples(100.0, CARDS[:1]),)))

    assert "as of 7 min ago" in page(old, 100, 30)


def test_lines_cannot_draw() -> None:
    """What a log says moves no cursor."""
    lines = page(WatchPage("x", STATE, lines=["\x1b[2J\x07evil\ttab"]), 80, 60)

    assert lines[-1] == " [2J evil tab"


@given(st.integers(-5, 300), st.integers(-5, 100), st.booleans(), st.integers(0, 16), st.integers(0, 40))
def test_fits_every_terminal(width: int, height: int, unicode: bool, cards: int, steps: int) -> None:
    """Whatever the terminal's size: no line and no page is larger."""
    state = RunMoment(
        now=9.0, began_at=0.0, grew_at=0.0, steps=STEPS[:steps], samples=(CardSamples(1.0, CARDS[:cards]),)
    )
    lines = page(WatchPage("a title", state, lines=["x" * 500] * 50), width, height, unicode)

    assert len(lines) <= max(height, 5)
    assert all(len(line) <= max(width, 20) for line in lines)


def test_bar() -> None:
    """Full, half, empty, and never beyond its ends."""
    assert [bar(share, 4, "#.") for share in (0, 0.5, 1, 7, -1)] == ["....", "##..", "####", "####", "...."]


ARGV = ("-m", "envcheck", "train", "--recipe", "tiny-cpu", "--steps", "12", "--watch")


@pytest.mark.parametrize("colour", (False, True))
def test_on_a_terminal(colour: bool, paddle_home: Path, tmp_path: Path) -> None:
    """A real run fills a real terminal's other screen, gives the first one back, and ends with its usual words."""
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home), "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    env = {k: v for k, v in env.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | ({} if colour else {"NO_COLOR": "1"})
    child = pexpect.spawn(sys.executable, [*ARGV], cwd=tmp_path, env=env, dimensions=(30, 90), timeout=150)
    said = child.expect(pexpect.EOF) == 0 and child.before.decode("utf-8", "replace")
    child.close()

    assert said
    assert child.exitstatus == 0, said
    drawn, _, after = said.rpartition("\x1b[?1049l")
    assert "\x1b[?1049h" in drawn
    assert "step 12 of 12" in after
    assert "finished after" in after
    assert ("\x1b[32m" in drawn) == colour


@pytest.mark.parametrize("more", ({}, {"TERM": "dumb"}))
def test_without_a_terminal(more: dict[str, str], paddle_home: Path, tmp_path: Path) -> None:
    """With --watch on a pipe: the plain lines, no control characters."""
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home), **more}
    done = subprocess.run([sys.executable, *ARGV], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150)

    assert done.returncode == 0, done.stderr
    assert "step 12 of 12" in done.stderr
    assert "\x1b" not in done.stderr
