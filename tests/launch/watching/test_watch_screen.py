"""The full screen of a run: rendered for any size, drawn on a terminal, and omitted without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.logs.training_step import TrainingStep
from launch.watching.run_moment import CardSample, CardSamples, RunMoment
from launch.watching.screen_page import WatchPage, draw_bar, render_page

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
    """The screen has step, speed and remaining time; cards; loss curve; end of the log."""
    lines = render_page(SHOWN, 120, 60)
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
    """In little space the head and some cards remain, with the number of omitted cards."""
    lines = render_page(SHOWN, 40, 14, unicode=False)

    assert lines[0].startswith("tiny-npu")
    assert "12 more cards" in lines
    assert all(len(line) <= 40 for line in lines)
    assert "".join(lines).isascii()
    assert "line 59" in lines


def test_before_the_first_step() -> None:
    """The screen works without steps, cards and lines."""
    assert render_page(WatchPage("x", RunMoment(now=5.0, began_at=0.0, grew_at=0.0)), 80, 24) == [
        "x  5 s",
        "no step completed yet",
        "",
    ]


def test_old_samples_show_their_age() -> None:
    """If the tool hangs, the last values are shown with their age."""
    old = WatchPage("x", RunMoment(now=500.0, began_at=0.0, grew_at=0.0, samples=(CardSamples(100.0, CARDS[:1]),)))

    assert "updated 7 min ago" in render_page(old, 100, 30)


def test_lines_cannot_draw() -> None:
    """Control characters of logs are removed."""
    lines = render_page(WatchPage("x", STATE, lines=["\x1b[2J\x07evil\ttab"]), 80, 60)

    assert lines[-1] == " [2J evil tab"


@given(st.integers(-5, 300), st.integers(-5, 100), st.booleans(), st.integers(0, 16), st.integers(0, 40))
def test_fits_every_terminal(width: int, height: int, unicode: bool, cards: int, steps: int) -> None:
    """No line and no page exceeds the size of the terminal."""
    state = RunMoment(
        now=9.0, began_at=0.0, grew_at=0.0, steps=STEPS[:steps], samples=(CardSamples(1.0, CARDS[:cards]),)
    )
    lines = render_page(WatchPage("a title", state, lines=["x" * 500] * 50), width, height, unicode)

    assert len(lines) <= max(height, 5)
    assert all(len(line) <= max(width, 20) for line in lines)


def test_bar() -> None:
    """Bars are full, half, empty, and never longer."""
    assert [draw_bar(share, 4, "#.") for share in (0, 0.5, 1, 7, -1)] == ["....", "##..", "####", "####", "...."]


ARGV = ("-m", "envcheck", "train", "--recipe", "tiny-cpu", "--steps", "12", "--dashboard")


@pytest.mark.parametrize("colour", (False, True))
def test_on_a_terminal(colour: bool, paddle_home: Path, tmp_path: Path) -> None:
    """A real run uses the alternate screen of a terminal, restores it, and prints the usual result."""
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
    assert "succeeded after" in after
    assert ("\x1b[32m" in drawn) == colour


@pytest.mark.parametrize("more", ({}, {"TERM": "dumb"}))
def test_without_a_terminal(more: dict[str, str], paddle_home: Path, tmp_path: Path) -> None:
    """With --dashboard on a pipe: plain lines without control characters."""
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home), **more}
    done = subprocess.run([sys.executable, *ARGV], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150)

    assert done.returncode == 0, done.stderr
    assert "step 12 of 12" in done.stderr
    assert "\x1b" not in done.stderr
