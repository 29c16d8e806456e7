"""Parsing of recorded training logs, and the estimate of the remaining time."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.logs import eta
from launch.logs.reader import LogReader, parse_step_line
from launch.logs.training_step import TrainingStep, describe_step, format_duration, is_same_step

DATA = Path(__file__).parents[2] / "data" / "training_logs"


def read_steps(text: str) -> list[TrainingStep]:
    reader = LogReader()
    found = [step for line in text.replace("\r", "\n").split("\n") for step in reader.feed_line(line)]
    return found + reader.flush_waiting()


def read_recording(name: str) -> list[TrainingStep]:
    return read_steps((DATA / f"{name}.txt").read_bytes().decode())


TO_24, TO_12 = list(range(2, 25, 2)), list(range(2, 13, 2))
RECORDED = {  # the steps' numbers, how many there are in all, the first and the last loss, the first learning rate
    "transformers_bars": (TO_24, 24, 4.866, 4.683, 0.0009583),
    "transformers_info": (TO_24, 24, 4.866, 4.683, 0.0009583),
    "transformers_plain": ([None] * 12, None, 4.866, 4.683, 0.0009583),
    "transformers_nan": (TO_24, 24, math.nan, math.nan, 9.583e29),
    "llamafactory_0.9.5": (TO_12, 12, 4.866, 4.805, 0.0009167),
    "llamafactory_trainer_log": (TO_12, 12, 4.866485118865967, 4.805228233337402, 0.0009166666666666666),
    "ms_swift_4.6": (TO_12, 12, 4.866, 4.805, 0.0009167),
    "ms_swift_logging": (TO_12, 12, 4.86648512, 4.80522823, 0.00091667),
    "paddleformers_0.2": (TO_12, 12, 1.53238273, 1.38040519, 0.004167),
    "paddleformers_0.2_bars": (TO_12, 12, 32.81700897, 24.0, 8.333e29),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_log(name: str) -> None:
    """Each step of a recorded log is found once with its number; evaluations, summaries and other bars are not."""
    numbers, of, first, last, rate = RECORDED[name]
    steps = read_recording(name)

    assert [step.step for step in steps] == numbers
    assert {step.of for step in steps} == {of}
    assert [steps[0].loss, steps[-1].loss] == pytest.approx([first, last], nan_ok=True)
    assert steps[0].learning_rate == rate


def test_every_recording_is_read() -> None:
    """Each recorded log has an expected result."""
    assert {path.stem for path in DATA.glob("*.txt")} == set(RECORDED)


def test_what_else_a_real_log_tells() -> None:
    """Gradient norm, epoch, speed and time of a step are parsed if present."""
    swift, paddle, factory = (
        read_recording(name)[0] for name in ("ms_swift_4.6", "paddleformers_0.2", "llamafactory_trainer_log")
    )

    assert (swift.grad_norm, swift.epoch, swift.seconds) == (0.7829, 0.08333, 0.03251)
    assert (paddle.samples_per_s, paddle.epoch) == (103.5733, 0.0833)
    assert paddle.seconds == pytest.approx(1 / 25.8933)
    assert factory.tokens_per_s == 10579.15


MEGATRON = (
    " [2026-11-21 10:00:00] iteration      122/  250000 | consumed samples:       124928 |"
    " elapsed time per iteration (ms): 86545.2 | memory(GiB): 12.5 |"
    " elapsed time: 3h 1m 2s | learning rate: 9.150E-06 | global batch size:  1024 |"
    " lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | number of nan iterations:   0 |"
)
ON_CARDS = (
    "[2026-11-21 10:00:00,123] [    INFO] - loss: 12.0635, learning_rate: 2e-06, global_step: 1, "
    "current_memory_reserved: 7.5, max_memory_allocated: 7.25, max_memory_reserved: 7.75, interval_runtime: 1.15, "
    "interval_samples_per_second: 0.8682, interval_tokens_per_second_per_device: 889.0448, "
    "interval_steps_per_second: 0.5, progress_or_epoch: 0.0"
)
SWIFT = (
    "{'loss': 0.21, 'grad_norm': 0.57, 'memory(GiB)': 63.16, 'train_speed(iter/s)': 0.01, 'nll_loss': 0.875, "
    "'global_step/max_steps': '78/176', 'elapsed_time': '1h 54m 53s'}"
)
TUNE = "Step 3 | loss:2.5 lr:0.0001 tokens_per_second_per_gpu:812.5 peak_memory_active:9 peak_memory_reserved:11.5 "
LINES = [
    ('{"step": 3, "loss": 4.27, "tokens_per_s": 4963, "memory_mib": 376}', TrainingStep(4.27, 3, 4963, 376)),
    ("[INFO] loss: 1.98, learning_rate: 1e-5, global_step: 3, interval_tokens_per_second: 8.5",
     TrainingStep(1.98, 3, 8.5, learning_rate=1e-5)),
    (MEGATRON, TrainingStep(2.50422, 122, None, 12800, 250000, 9.15e-6, 0.231, seconds=86.5452)),
    (ON_CARDS, TrainingStep(12.0635, 1, None, 7936, None, 2e-6, None, 0.8682, 889.0448, 2.0, 0.0)),
    (SWIFT, TrainingStep(0.21, 78, None, 64675.84, 176, None, 0.57, seconds=100.0)),
    (TUNE, TrainingStep(2.5, 3, None, 11776, None, 1e-4, tokens_per_s_card=812.5)),
    ("{'loss': 1.4213, 'grad_norm': np.float64(30711.9), 'epoch': 0.02}",
     TrainingStep(1.4213, grad_norm=30711.9, epoch=0.02)),
    ("{'loss': '1.42', 'memory(MiB)': 51.5, 'global_step/max_steps': '3/50'}", TrainingStep(1.42, 3, None, 51.5, 50)),
    ("loss: 2.5, global_step: 4, max_memory_allocated: 3.0, max_memory_reserved: 3.5",
     TrainingStep(2.5, 4, None, 3584)),
    ("epoch: 1, iter: 20/500, loss: 2.0859, lr: 0.009657, ips: 3.7 samples/sec",
     TrainingStep(2.0859, 20, None, None, 500, 0.009657, epoch=1)),
    ("[rank0]: {'loss': 1.42, 'epoch': 1}", TrainingStep(1.42, epoch=1)),
    ("\x1b[32m[2026-11-21 03:50:53,244] [    INFO]\x1b[0m - loss: .5, global_step: 2\x1b[0m", TrainingStep(0.5, 2)),
    ("loss: -inf, lr: 1_000.5E-3", TrainingStep(-math.inf, learning_rate=1.0005)),
    ('{"loss": 1e999999}', TrainingStep(math.inf)),
    ('{"step": 3, "loss": 2.5, "grad_norm": nan, "tokens_per_s": 1e400, "memory_mib": nan}',
     TrainingStep(2.5, 3, grad_norm=math.nan)),
    ('{"event": "done"}', None),
    ('{"loss": "much"}', None),
    ('{"loss": true}', None),
    ("{'eval_loss': '4.7', 'eval_runtime': '0.0046', 'epoch': '0.67'}", None),
    ("{'train_runtime': '0.3', 'train_loss': '4.774', 'epoch': '1'}", None),
    ("validation loss: 3.5, step: 2", None),
    ("step 5 loss nan", TrainingStep(math.nan, 5)),
    ("Step 5/60: loss=2.5 lr=0.1", TrainingStep(2.5, 5, of=60, learning_rate=0.1)),
    ("epoch 1 iter 5 | loss: 2.5 | time 0.1", TrainingStep(2.5, 5, epoch=1)),
    ("Epoch [1/5], Step [20/100], Loss: 2.5", TrainingStep(2.5, 20, of=100, epoch=1)),
    ("loss: 2.5", TrainingStep(2.5)),
    ("training loss = 2.5", None),  # an average, by its name
    ("eval step 5 eval loss 2.5", None),
    ("step 5 of the loss 3 times", None),
    ("the loss: 3 of us", None),
    ("[   DEBUG] - scale_loss                    : 32768, step: 3", None),
    ("a loss of time", None),
    ("", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_line(line: str, expected: TrainingStep | None) -> None:
    """Lines of all frameworks are parsed with any prefix; other lines are not steps."""
    step = parse_step_line(line)

    assert (step is None) == (expected is None)
    if step and expected:
        assert vars(step) == pytest.approx(vars(expected), nan_ok=True)


def test_bars_of_torchtune_hold_the_loss() -> None:
    """A progress bar with the loss in its title is one step, however often it is redrawn."""
    bars = (
        "1|1|Loss: 2.5:  10%|█         | 1/10 [00:01<00:09]\r" * 3
        + "1|2|Loss: 2.25:  20%|██        | 2/10 [00:02<00:08]"
    )

    assert [(step.step, step.of, step.loss) for step in read_steps(bars)] == [(1, 10, 2.5), (2, 10, 2.25)]


def test_bars_of_users_hold_the_loss() -> None:
    """tqdm's postfix is read, also if the loss is no number."""
    reader = LogReader()
    steps = [
        step
        for number, loss in ((1, "2.5"), (2, "nan"), (2, "nan"))
        for step in reader.feed_line(f" {number}0%|#   | {number}/10 [00:01<00:09,  1.2it/s, lr=0.1, loss={loss}]")
    ]

    assert [(step.step, step.of) for step in steps] == [(1, 10), (2, 10)]
    assert steps[0].loss == 2.5 and math.isnan(steps[1].loss)


def test_other_bars_do_not_number_steps() -> None:
    """Progress bars of loading, mapping and evaluation are not steps."""
    text = "\n".join(
        [
            "Loading checkpoint shards:  50%|█████     | 1/2 [00:01<00:01]",
            "  0%|          | 0/40 [00:00<?, ?it/s]",
            "{'loss': '2.5', 'epoch': '0.1'}",
            " 10%|█         | 4/40 [00:04<00:36,  1.0it/s]",
            " 50%|█████     | 1/2 [00:00<00:00]",
            "{'loss': '2.4', 'epoch': '0.2'}",
            " 20%|██        | 8/40 [00:08<00:32,  1.0it/s]",
        ]
    )

    assert [(step.step, step.loss) for step in read_steps(text)] == [(4, 2.5), (8, 2.4)]


def test_one_rank_tells() -> None:
    """If several ranks write into one log, only the first with a step counts."""
    text = "".join(
        f"[rank{rank}]: {{'loss': {loss}, 'epoch': {n}}}\n" for n in (1, 2) for rank, loss in ((3, n), (0, 9))
    )

    assert [step.loss for step in read_steps(text)] == [1, 2]


def test_warning_of_another_rank_on_the_line() -> None:
    """A step after a fragment of another rank's warning is parsed, as are the following ones."""
    warning = "[rank1]:[W1121 10:48:48.589371640 reducer.cpp:1529] Warning: find_unused_parameters=True was"
    text = f"{warning}{{'loss': 4.7, 'epoch': 1}} specified\n{{'loss': 4.6, 'epoch': 2}}\n"

    assert [step.loss for step in read_steps(text)] == [4.7, 4.6]


@given(
    st.text() | st.from_regex(r"\{.{0,20}['\"]loss['\"]: .{0,20}\}") | st.from_regex(r".{0,9}%\|.{0,9}\| \d/\d \[.*")
)
def test_never_fails(line: str) -> None:
    """Any text yields a step or None."""
    reader = LogReader()

    assert all(isinstance(step, TrainingStep) for step in [*reader.feed_line(line), *reader.flush_waiting()])


HOSTILE = (
    "loss: " * 20_000,
    "loss:" + "1" * 100_000,
    "{'loss': " + "[" * 100_000,
    "\x1b[" * 50_000 + "loss: 1, lr: 1",
    " 10%|" + "#" * 100_000,
    " 1%|#| 1/9 [x]" * 9_000,
    "a:1" * 40_000 + " loss",
    " " * 100_000 + "loss: 1, lr: 2",
    "loss: " + " " * 100_000,
    "- " * 50_000 + "loss: 1",
    "Loss " + "iteration " * 10_000,
    "1.e" * 40_000 + "loss: ",
)


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_cost_little(line: str) -> None:
    """Parsing time is linear for adversarial lines."""
    reader, began = LogReader(), time.process_time()
    for _ in range(100):
        reader.feed_line(line)

    assert time.process_time() - began < 60  # one that backtracks takes for ever


# ---- words and time left


def test_described_step() -> None:
    """A step is described by its known values in order."""
    assert describe_step(TrainingStep(4.272, 3, 4963, 376), 50) == "step 3 of 50, loss 4.2720, 4963 tokens/s, 376 MiB"
    assert describe_step(TrainingStep(1.5, 7, of=9, learning_rate=2e-5, seconds=12.25), left_s=7500) == (
        "step 7 of 9, loss 1.5000, lr 2e-05, 12.2 s per step, 2 h 5 min left"
    )
    assert describe_step(TrainingStep(math.nan)) == "loss nan"


@pytest.mark.parametrize(
    ("seconds", "expected"), ((4, "4 s"), (89, "89 s"), (300, "5 min"), (3599, "1 h 0 min"), (200_000, "2 d 7 h"))
)
def test_duration(seconds: float, expected: str) -> None:
    """Durations are rounded."""
    assert format_duration(seconds) == expected


def test_time_left() -> None:
    """The remaining time includes checkpoints; the time per step does not."""
    even = [(10.0 * n, n) for n in range(1, 6)]
    paused = [*even, (150.0, 6)]

    assert eta.remaining_s(even, 105) == 1000
    assert eta.median_step_s(paused) == 10
    assert eta.remaining_s(paused, 106) == 2800  # 140 s for 5 steps
    assert eta.remaining_s(even, None) is None
    assert eta.remaining_s(even, 3) is None
    assert eta.remaining_s(even[:1], 10) is None
    assert eta.remaining_s([], 10) is None
    assert eta.remaining_s([(5.0, 1), (5.0, 1)], 10) is None


def test_steps_that_are_read_at_once_tell_no_pace() -> None:
    """Steps that were read at once give no estimate."""
    marks: deque[eta.Mark] = deque(maxlen=eta.WINDOW)
    for number in range(1, 1001):
        eta.add_mark(marks, 5 + number / 1e5, number)

    assert eta.remaining_s(tuple(marks), 2000) is None
    for number in range(1, 5):
        eta.add_mark(marks, 5.01 + 10 * number, 1000 + number)
    assert eta.remaining_s(tuple(marks), 2000) == pytest.approx(9960)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 10**9)), max_size=8), st.none() | st.integers(0, 10**9))
def test_time_left_is_never_negative(marks: list[tuple[float, int]], of: int | None) -> None:
    """Any marks yield a number of seconds or None."""
    left = eta.remaining_s(marks, of)

    assert left is None or left >= 0


def test_the_same_step_logged_twice() -> None:
    """A NaN equals a NaN here; any other value, or none, does not."""
    step = TrainingStep(loss=math.nan, step=3, grad_norm=1.0)

    assert is_same_step(step, TrainingStep(loss=math.nan, step=3, grad_norm=1.0))
    for other in (None, replace(step, loss=1.0), replace(step, grad_norm=None), replace(step, step=4)):
        assert not is_same_step(step, other)
