"""The stop rules as pure functions, and the options that change them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from launch.logs.training_step import TrainingStep
from launch.watching import choose_monitor, stop_rules
from launch.watching.run_moment import CardSample, CardSamples, RunMoment

IDLE = tuple(CardSample(str(n), 3400, 65536, 0.0, health="OK") for n in range(2))
WELL = tuple(TrainingStep(5 - n / 100, n) for n in range(1, 41))


def make_samples(*cards: CardSample, count: int = 3) -> tuple[CardSamples, ...]:
    return tuple(CardSamples(100.0 + 5 * n, cards) for n in range(count))


def make_taken_cards(**more: Any) -> tuple[CardSample, ...]:
    return (IDLE[0], replace(IDLE[1], **more))


# A healthy moment: 40 steps of a second each, cards at work, a log that grew just now.
HEALTHY = RunMoment(
    now=140.0,
    began_at=50.0,
    grew_at=139.0,
    steps=WELL,
    marks=tuple((99.0 + n, n) for n in range(1, 41)),
    first_step_at=100.0,
    stepped_at=139.0,
    before=CardSamples(40.0, IDLE),
    samples=make_samples(*(replace(card, used_mib=40000, percent=95.0) for card in IDLE)),
    busy_cores=2.0,
    host_free=0.5,
)
NAN, HIGH = TrainingStep(math.nan, 41), tuple(TrainingStep(40.0, n) for n in range(41, 44))
FALLEN = {"now": 201.0, "grew_at": 100.0, "worked_at": 140.0, "launcher_error": ("Traceback", "  File", "OSError: x")}
SILENT = {"grew_at": 1000.0, "stepped_at": 1000.0}
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("cpu", {"samples": make_samples(*IDLE)}, "all 2 cards were idle"),
    ("cpu", {"samples": make_samples(*IDLE), "busy_cores": None}, ""),  # nobody knows who burns the host
    ("cpu", {"samples": make_samples(*IDLE), "busy_cores": 0.1}, ""),
    ("cpu", {"samples": make_samples(*IDLE, count=2)}, ""),
    ("cpu", {"samples": make_samples(*IDLE), "steps": WELL[:2]}, ""),
    ("cpu", {"samples": make_samples(*IDLE), "first_step_at": 101.0}, ""),  # these looks were before
    ("cpu", {"samples": make_samples(*IDLE), "before": None}, ""),
    ("cpu", {"samples": make_samples(*make_taken_cards(percent=60.0))}, ""),
    ("cpu", {"samples": make_samples(*make_taken_cards(used_mib=9000))}, ""),  # idle right now, with a model in it
    ("cpu", {"samples": make_samples(*make_taken_cards(used_mib=None, percent=None))}, ""),
    ("cpu", {"samples": make_samples(*(replace(card, percent=None) for card in IDLE))}, "were idle"),
    ("loss", {"steps": (*WELL, NAN, NAN, NAN)}, "NaN or infinite since step 41"),
    ("loss", {"steps": (NAN, NAN, NAN)}, "NaN or infinite"),
    ("loss", {"steps": (*WELL, NAN, NAN)}, ""),
    ("loss", {"steps": (*WELL, NAN, NAN, TrainingStep(4.0, 44))}, ""),  # fp16 skips a step now and then
    ("loss", {"steps": (*WELL, *[TrainingStep(math.inf, 41)] * 3)}, "NaN or infinite"),
    ("loss", {"steps": (*WELL, *[TrainingStep(0.0, 41, grad_norm=math.nan)] * 3)}, "NaN or infinite"),
    ("loss", {"steps": (*WELL, *[TrainingStep(0.0, 41, grad_norm=0.5)] * 3)}, ""),
    ("loss", {"steps": (*WELL, *HIGH)}, "more than 4 times"),
    ("loss", {"steps": (*WELL[:5], *HIGH)}, ""),  # too early to say
    ("loss", {"steps": (*(TrainingStep(-s.loss, s.step) for s in WELL), *HIGH)}, ""),  # below 0 is no such measure
    ("loss", {"steps": tuple(TrainingStep(n / 1000, n) for n in range(1, 60))}, ""),  # as reinforcement learning begins
    ("loss", {"steps": ()}, ""),
    ("stalled", {"now": 1500.0, **SILENT}, ""),
    ("stalled", {"now": 1601.0, **SILENT}, "no step for 10 min; before: 1 s per step"),
    ("stalled", {"now": 1601.0, **SILENT, "marks": ((0.0, 1), (100.0, 2))}, ""),  # slow steps: 20 times 100 s
    ("stalled", {"now": 3999.0, "grew_at": 3998.0, "stepped_at": 1000.0}, ""),  # a checkpoint, with words
    ("stalled", {"now": 4001.0, "grew_at": 4000.0, "stepped_at": 1000.0}, "no step for 50 min"),
    ("stalled", {"now": 3000.0, "grew_at": 50.0, "stepped_at": None, "steps": ()}, ""),  # large models load for long
    ("stalled", {"now": 3700.0, "grew_at": 50.0, "stepped_at": None, "steps": ()}, "no step completed in 1 h 1 min"),
    ("launcher", {**FALLEN}, "no worker and no log output for 61 s"),
    ("launcher", {**FALLEN, "now": 160.0}, ""),  # not for long enough
    ("launcher", {**FALLEN, "worked_at": 190.0}, ""),  # a worker lives, or did until just now
    ("launcher", {**FALLEN, "grew_at": 190.0}, ""),  # work went on
    ("launcher", {**FALLEN, "worked_at": None}, ""),  # nobody can tell whether a worker lives
    ("launcher", {**FALLEN, "launcher_error": ()}, ""),
    ("health", {"samples": make_samples(*make_taken_cards(health="Alarm"))}, "card 1 changed from OK to Alarm"),
    ("health", {"samples": make_samples(*make_taken_cards(health="Warning"))}, ""),
    ("health", {"samples": make_samples(*make_taken_cards(health="Alarm"), count=1)}, ""),
    ("health", {"samples": (*make_samples(*make_taken_cards(health="Alarm")), CardSamples(120.0, IDLE))}, ""),
    ("health", {"samples": make_samples(*make_taken_cards(health="Alarm")),
                "before": CardSamples(40.0, make_taken_cards(health="Alarm"))}, ""),
    ("health", {"samples": make_samples(IDLE[0])}, "card 1 is no longer listed"),
    ("health", {"samples": make_samples(*make_taken_cards(ecc_uncorrected=3))},
     "3 uncorrected memory errors (0 at the start)"),
    ("health", {"samples": make_samples(*make_taken_cards(health=None))}, ""),
    ("health", {"samples": make_samples(IDLE[0]), "before": None}, ""),
    ("memory", {"samples": make_samples(*make_taken_cards(used_mib=64300))}, "card 1 uses 98.1 % of its memory"),
    ("memory", {"samples": make_samples(*make_taken_cards(used_mib=64000))}, ""),
    ("memory", {"samples": make_samples(*make_taken_cards(used_mib=64300), count=2)}, ""),
    ("memory", {"samples": make_samples(*make_taken_cards(used_mib=64300, total_mib=None))}, ""),
    # Another job's card, and one's own.
    ("health", {"samples": make_samples(*make_taken_cards(health="Alarm")), "mine": frozenset("0")}, ""),
    ("health", {"samples": make_samples(*make_taken_cards(health="Alarm")), "mine": frozenset("1")},
     "card 1 changed"),
    ("memory", {"samples": make_samples(*make_taken_cards(used_mib=64300)), "mine": frozenset("0")}, ""),
    ("memory", {"samples": make_samples(*make_taken_cards(used_mib=64300)), "mine": frozenset("01")},
     "card 1 uses 98.1 %"),
    ("memory", {"host_free": 0.01}, "only 1.0 % of host memory is free"),
    ("memory", {"host_free": None}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "expected"), CASES)
def test_rule(name: str, changed: dict[str, Any], expected: str) -> None:
    """Each rule applies when it must, and not in healthy or unknown states."""
    seen = stop_rules.RULES[name].judge(replace(HEALTHY, **changed), stop_rules.RULES[name].limits)

    assert (seen is not None) == bool(expected)
    assert expected in (seen[0] if seen else "")


def test_every_rule_is_tested() -> None:
    """Each rule has a case that it ends and one that it does not."""
    assert {name for name, _, expected in CASES if expected} == set(stop_rules.RULES)
    assert {name for name, _, expected in CASES if not expected} == set(stop_rules.RULES)


def test_healthy_run_goes_on() -> None:
    """No rule ends a healthy run or one without data."""
    assert stop_rules.judge_moment(HEALTHY, stop_rules.list_active_rules()) is None
    assert (
        stop_rules.judge_moment(RunMoment(now=60.0, began_at=50.0, grew_at=50.0), stop_rules.list_active_rules())
        is None
    )


def test_finding_has_a_next_step() -> None:
    """A finding has name, evidence, limits, next step and the option to continue anyway."""
    found = stop_rules.judge_moment(replace(HEALTHY, steps=(NAN, NAN, NAN)), stop_rules.list_active_rules())

    assert found is not None
    assert (found.name, found.source) == ("watch.loss", "lines 3, times 4, rise 2, first 10")
    assert found.evidence == ("step 41: loss nan",) * 3
    assert found.remedy
    assert "learning rate" in found.remedy.words
    assert "--no-stop loss" in found.remedy.words


TIMES, SIZES = st.floats(0, 1e7), st.integers(0, 9) | st.none()
STEPS = st.builds(TrainingStep, st.floats(), st.integers(0, 99) | st.none(), grad_norm=st.floats() | st.none())
HEALTHS = st.sampled_from(("OK", "Alarm", "?", None))
CARDS = st.builds(CardSample, st.sampled_from("012"), SIZES, SIZES, st.floats(0, 100) | st.none(), health=HEALTHS)
SAMPLES = st.builds(CardSamples, TIMES, st.lists(CARDS).map(tuple))
STATES = st.builds(
    RunMoment,
    now=TIMES,
    began_at=TIMES,
    grew_at=TIMES,
    steps=st.lists(STEPS).map(tuple),
    marks=st.lists(st.tuples(TIMES, st.integers(0, 99))).map(tuple),
    stepped_at=TIMES | st.none(),
    before=SAMPLES | st.none(),
    samples=st.lists(SAMPLES).map(tuple),
    busy_cores=st.floats(0, 99) | st.none(),
    host_free=st.floats(0, 1) | st.none(),
    worked_at=TIMES | st.none(),
    launcher_error=st.lists(st.text()).map(tuple),
)


@given(STATES)
def test_rules_never_fail(state: RunMoment) -> None:
    """Any state yields a finding or None."""
    found = stop_rules.judge_moment(state, stop_rules.list_active_rules())

    assert found is None or (found.seen and found.remedy)


def test_rules_can_be_changed() -> None:
    """--no-stop disables a rule; --limit changes a limit."""
    left = choose_monitor.parse_rules(("cpu", "loss"), ())
    assert left.keys() & stop_rules.RULES.keys() == {"stalled", "launcher", "health", "memory"}
    assert choose_monitor.parse_rules((), ("stalled.seconds=30", "memory.percent=99.5"))["stalled"]["seconds"] == 30
    assert stop_rules.RULES["stalled"].limits["seconds"] == 600


@pytest.mark.parametrize(
    ("off", "changed", "near"),
    [
        (("stall",), (), "stalled"),
        ((), ("stalled.second=3",), "stalled.seconds"),
        ((), ("loss.lines=many",), "stalled.seconds=1800"),
        ((), ("loss.lines=-1",), "stalled.seconds=1800"),
        ((), ("loss.lines=nan",), "stalled.seconds=1800"),
        ((), ("loss.lines",), "stalled.seconds=1800"),
        ((), ("qqq=1",), "cpu.steps"),
    ],
)
def test_wrong_options(off: tuple[str, ...], changed: tuple[str, ...], near: str) -> None:
    """Unknown rules and limits and invalid numbers are errors with a suggestion."""
    with pytest.raises(UsageError) as caught:
        choose_monitor.parse_rules(off, changed)

    assert near in (caught.value.next_step or "")
