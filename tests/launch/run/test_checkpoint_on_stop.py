"""Checkpoints on SIGTERM: transformers' Trainer, started by torchrun."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from envcheck.job.command import render_command
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.logs.training_step import TrainingStep
from launch.run import launcher, process_tree
from launch.run.host_stage import HostStage
from launch.targets import checkpoint_on_stop, clean_environment

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "trainer_program.py"
OPTIONS = (
    "--output_dir", "{output}", "--max_steps", "100000", "--logging_steps", "5", "--save_strategy", "no",
    "--use_cpu", "true", "--report_to", "none", "--per_device_train_batch_size", "1", "--disable_tqdm", "true",
)  # fmt: skip


def run_training(python: Path, run: Path, *more: str, signals: int = 1) -> tuple[launcher.TrainingEnd, float]:
    """Interrupt a training `signals` times after its first step; return its end and the seconds that it took.

    With one worker: several get the signal in different steps, and transformers does not synchronize them.
    """
    torchrun = str(python.with_name("torchrun"))
    job = RecipeJob("lora", "", (torchrun, "--standalone", "--nproc_per_node", "1", str(PROGRAM)), (*OPTIONS, *more))
    recipe = Recipe("trainer", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    for name in ("log", "output"):
        (run / name).mkdir()
    made = render_command(recipe, job, {"output": str(run / "output")})
    asked: list[float] = []

    def say(step: TrainingStep) -> None:
        if not asked:
            asked.append(time.monotonic())
            for number in range(signals):
                threading.Timer(number, os.kill, (os.getpid(), signal.SIGINT)).start()

    tidy = clean_environment.clean_variables({**os.environ, "OMP_NUM_THREADS": "1"}, made, "cpu", str(run))
    end = launcher.launch_training(HostStage(recipe, None), made, tidy, run, say, 150)
    return end, time.monotonic() - asked[0]


def test_saved_before_it_ends(torch_environment: Path, tmp_path: Path) -> None:
    """After one Ctrl-C the output contains a complete checkpoint of the current step."""
    end, _ = run_training(torch_environment / "bin/python", tmp_path, "--enable_jit_checkpoint", "true")

    assert end.how == "user"
    (made,) = (Path(path) for path in end.outputs)
    assert (made / "model.safetensors").stat().st_size > 10_000
    assert (made / "trainer_state.json").exists()
    assert not (made / "checkpoint-is-incomplete.txt").exists()
    assert process_tree.find_survivors(tmp_path) == []


def test_a_second_one_does_not_wait(torch_environment: Path, tmp_path: Path) -> None:
    """A second Ctrl-C ends the run without a checkpoint."""
    end, seconds = run_training(
        torch_environment / "bin/python",
        tmp_path,
        "--enable_jit_checkpoint",
        "true",
        "--save_strategy",
        "no",
        signals=2,
    )

    assert end.how == "user"
    assert seconds < checkpoint_on_stop.SAVE_OPTIONS[0].grace_s / 10
    assert process_tree.find_survivors(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "files", "can"),
    (
        (("--enable_jit_checkpoint",), {}, True),
        (("--enable_jit_checkpoint", "true"), {}, True),
        (("--enable_jit_checkpoint=True",), {}, True),
        (("--enable_jit_checkpoint", "False"), {}, False),
        (("--other", "enable_jit_checkpoint"), {}, False),
        ((), {"train.yaml": "stage: sft\nenable_jit_checkpoint: true\n"}, True),
        ((), {"train.yaml": "enable_jit_checkpoint: false\n"}, False),
        ((), {}, False),
    ),
)
def test_jobs_that_save_on_sigterm(arguments: tuple[str, ...], files: dict[str, str], can: bool) -> None:
    """The option enables it, as an argument or in an option file."""
    job = RecipeJob("lora", "", ("x",), arguments)
    made = render_command(Recipe("r", "", "cpu", "envcheck", ("m",), Hardware("any"), (job,)), job, {})

    object.__setattr__(made, "files", files)
    assert bool(checkpoint_on_stop.save_grace_s(made)) is can
