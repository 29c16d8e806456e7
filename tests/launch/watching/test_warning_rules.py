"""The warnings as pure functions: quiet on healthy trainings, each given on a broken one."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from envcheck.core.model import Finding, Status
from launch.logs.rank_times import RankTimes
from launch.logs.training_step import TrainingStep
from launch.run.watch import RunWatch
from launch.watching import choose_monitor, stop_rules, warning_rules
from launch.watching.monitor import FIRST_STEPS, LAST_STEPS, Monitor
from launch.watching.run_moment import CardSample, CardSamples, RunMoment
from launch.watching.warning_rules import WARNINGS

VOCABULARY = 151936
GUESS = math.log(VOCABULARY)
LIMITS = stop_rules.list_active_rules(table=WARNINGS)
BUSY = tuple(
    CardSamples(100.0 + 5 * n, (CardSample("0", percent=80.0 + n), CardSample("1", percent=97.0))) for n in range(16)
)


def make_curve(seed: int, count: int) -> list[TrainingStep]:
    """Return a healthy training: a falling, noisy loss, falling gradients with spikes, warm-up, an even speed."""
    chance = random.Random(seed)
    start, floor, tau = chance.uniform(1.0, 12.0), chance.uniform(0.05, 1.0), chance.uniform(20, 2000)
    noise, rate, digits = chance.uniform(0.005, 0.2), 10 ** chance.uniform(-6, -3), chance.choice((3, 4, 8))
    seconds, jitter, warmup = 10 ** chance.uniform(-1, 1.5), chance.uniform(0.0, 0.2), chance.randint(0, 50)
    norm = 10 ** chance.uniform(-2, 4)
    steps = []
    for n in range(1, count + 1):
        loss = floor + (start - floor) * math.exp(-n / tau)
        spike = 30 if chance.random() < 0.02 else 1
        saves = 8 if n % 25 == 0 else 1
        compiles = 10 if n < 3 else 1
        steps.append(
            TrainingStep(
                round(loss * chance.lognormvariate(0, noise), digits),
                n,
                learning_rate=rate * min(1.0, n / warmup if warmup else 1.0),
                grad_norm=norm * (0.3 + math.exp(-n / 50)) * chance.lognormvariate(0, 0.3) * spike,
                seconds=seconds * chance.lognormvariate(0, jitter) * saves * compiles,
                data_seconds=seconds * chance.uniform(0.0, 0.2),
            )
        )
    return steps


def make_moment(steps: Iterable[TrainingStep], **more: Any) -> RunMoment:
    """Return the moment with the steps that the monitor hands on."""
    kept = list(steps)
    window = kept if len(kept) <= FIRST_STEPS + LAST_STEPS else [*kept[:FIRST_STEPS], *kept[-LAST_STEPS:]]
    usual: dict[str, Any] = {"samples": BUSY, "first_step_at": 90.0, "vocabulary": VOCABULARY, "host": "node-2"}
    usual |= {"cards": ("4", "5"), "mine": frozenset(("0", "1")), "rank_step_s": {0: 1.02, 1: 0.99}}
    return RunMoment(now=200.0, began_at=50.0, grew_at=199.0, steps=tuple(window), **{**usual, **more})


def list_names(state: RunMoment) -> list[str]:
    return [found.name.removeprefix("watch.") for found in warning_rules.list_warnings(state, LIMITS)]


@pytest.mark.parametrize("part", range(10))
def test_healthy_trainings_are_quiet(part: int) -> None:
    """No warning in a thousand random healthy trainings, at any of several moments."""
    noisy = {}
    for seed in range(100 * part, 100 * part + 100):
        steps = make_curve(seed, 400)
        for at in (3, 12, 30, 61, 100, 250, 400):
            if names := list_names(make_moment(steps[:at])):
                noisy[seed, at] = names

    assert noisy == {}


GOOD = make_curve(7, 100)
SLOWER = [replace(step, seconds=(step.seconds or 0.0) * (3 if n > 50 else 1)) for n, step in enumerate(GOOD)]
BROKEN: list[tuple[str, RunMoment, str]] = [
    ("flat", make_moment([TrainingStep(2.5, n) for n in range(1, 85)]), "2.5 in 30 lines of the log"),
    ("flat", make_moment([replace(step, loss=5.54518) for step in GOOD]), "5.54518 in 30 lines of the log"),
    (
        "uniform",
        make_moment(
            [replace(step, loss=math.log(VOCABULARY) * (1 + 0.003 * math.sin(step.step or 0))) for step in GOOD]
        ),
        "is ln 151936, the loss of a uniform guess",
    ),
    (
        "gradients",
        make_moment([replace(s, grad_norm=1.0 if n < 90 else 1e4 * n) for n, s in enumerate(GOOD)]),
        "more than 20 times the usual 1",
    ),
    (
        "gradients",
        make_moment([replace(s, grad_norm=1.0 if n < 90 else 1e-9) for n, s in enumerate(GOOD)]),
        "practically zero; usual: 1",
    ),
    (
        "gradients",
        make_moment([replace(s, grad_norm=1.0 if n < 90 else math.nan) for n, s in enumerate(GOOD)]),
        "gradient norms are not finite",
    ),
    ("gradients", make_moment([replace(s, grad_norm=0.0) for s in GOOD]), "practically zero"),
    (
        "slow_rank",
        make_moment(GOOD, rank_step_s={0: 1.0, 1: 1.6}, first_rank=8),
        "rank 9 (device 5 of node-2): 1.6 s per step; the others: 1 s",
    ),
    ("throughput", make_moment(SLOWER), "of the speed of the first steps"),
    (
        "throughput",
        make_moment([replace(s, tokens_per_s=9000 if n < 30 else 4000) for n, s in enumerate(GOOD)]),
        "44 % of the speed of the first steps",
    ),
    (
        "data",
        make_moment([replace(s, seconds=2.0, data_seconds=1.6) for s in GOOD]),
        "the data loader takes 80 % of a step",
    ),
    (
        "data",
        make_moment(GOOD, samples=tuple(replace(look, cards=(CardSample("0", percent=12.0),)) for look in BUSY)),
        "the cards are busy 12 % of the time",
    ),
]


@pytest.mark.parametrize(("name", "state", "text"), BROKEN)
def test_broken_trainings(name: str, state: RunMoment, text: str) -> None:
    """Each rule has a broken training on which it alone warns, with what was seen and what to do."""
    (found,) = warning_rules.list_warnings(state, LIMITS)

    assert found.name == f"watch.{name}"
    assert found.status is Status.WARN
    assert text in found.seen
    assert found.remedy and found.remedy.words.endswith(f"To end the run on this, use --stop {name}.")


def test_every_rule_has_a_broken_training() -> None:
    """The table of broken trainings has all rules."""
    assert {name for name, _unused, _text in BROKEN} == set(WARNINGS)


QUIET: list[RunMoment] = [
    make_moment([replace(step, loss=0.0) for step in GOOD]),  # a small model that is done, or skipped fp16 steps
    make_moment([replace(step, loss=2.5, learning_rate=0.0) for step in GOOD]),  # nothing can change
    make_moment([replace(step, loss=2.5) for step in GOOD[:20]]),
    make_moment([replace(step, loss=math.log(VOCABULARY)) for step in GOOD[:20]]),  # from scratch, at the beginning
    make_moment([replace(step, loss=math.nan) for step in GOOD]),  # the stop rule for the loss
    make_moment([replace(step, grad_norm=None, seconds=None, data_seconds=None) for step in GOOD]),
    make_moment(GOOD, rank_step_s={0: 1.0}),
    make_moment(GOOD, rank_step_s={0: 0.001, 1: 0.002}),
    make_moment(GOOD, samples=()),
    make_moment(GOOD, samples=tuple(replace(look, cards=(CardSample("0"),)) for look in BUSY)),
    make_moment([]),
]


@pytest.mark.parametrize("state", QUIET)
def test_nothing_is_said_without_grounds(state: RunMoment) -> None:
    """Values that are missing, or have another explanation, give no warning."""
    assert list_names(state) == []


@given(
    st.lists(
        st.builds(
            TrainingStep,
            st.floats(allow_nan=True),
            st.none() | st.integers(0, 99),
            **{
                name: st.none() | st.floats()
                for name in ("grad_norm", "seconds", "data_seconds", "tokens_per_s", "learning_rate")
            },
        ),
        max_size=70,
    ),
    st.dictionaries(st.integers(0, 3), st.floats(0, 1e9)),
)
def test_any_history_is_judged(steps: list[TrainingStep], times: dict[int, float]) -> None:
    """No value of a log makes a rule fail."""
    list_names(make_moment(steps, rank_step_s=times))


class NoWorkers:
    """A family of processes without any."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.peak_bytes = 0

    def update_workers(self) -> None: ...

    def has_living_worker(self) -> bool | None:
        return True

    def wait_for_death(self, seconds: float) -> None: ...

    def close(self) -> None: ...


def test_a_warning_is_given_once_and_may_end_the_run(tmp_path: Path) -> None:
    """The monitor reads the logs of all workers, gives each warning once, and ends the run if asked to."""
    for rank, seconds in ((0, 1.0), (1, 1.0), (2, 2.0)):
        lines = (f"step: {n}, loss: {4 - n / 50}, train_speed(s/it): {seconds}\n" for n in range(1, 31))
        (tmp_path / f"workerlog.{rank}").write_text("".join(lines))
    told: list[Finding] = []
    watch = RunWatch(tmp_path, NoWorkers(), lambda step: None)
    watch.update_state()

    def judge(*ends: str) -> Monitor:
        monitor = Monitor(LIMITS, None, tmp_path, "mark")
        monitor.base = replace(monitor.base, cards=("4", "5", "6"), host="here")
        monitor.ends, monitor.tell = frozenset(ends), told.append
        for _unused in range(3):
            monitor.judged = -math.inf
            if monitor.must_end_run(watch):
                break
        return monitor

    assert judge().stopped is None
    assert [found.name for found in told] == ["watch.slow_rank"]
    assert "rank 2 (device 6 of here): 2 s per step; the others: 1 s" in told[0].seen
    stopped = judge("slow_rank").stopped
    assert stopped and (stopped.name, stopped.status) == ("watch.slow_rank", Status.FAIL)


def test_times_between_log_lines() -> None:
    """Without logged times those between the log lines count; a worker with few steps has none."""
    times = RankTimes()
    for n in range(12):
        times.add_steps(0, [TrainingStep(1.0, n)], 2.0 * n)
    times.add_steps(1, [TrainingStep(1.0, 1)], 0.0)

    assert times.list_step_times() == {0: 2.0}


def test_options_of_warnings() -> None:
    """--no-stop silences a warning, --limit changes its limits, --stop names one; others are refused."""
    rules = choose_monitor.parse_rules(["flat"], ["gradients.times=50"], ["data"])

    assert "flat" not in rules
    assert rules["gradients"]["times"] == 50
    with pytest.raises(UsageError, match="--stop cpu: unknown rule"):
        choose_monitor.parse_rules([], [], ["cpu"])
