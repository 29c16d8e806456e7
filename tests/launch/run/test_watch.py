"""Following the logs of a run: which steps count, with torchrun as well, and the cost of large logs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from envcheck.job.command import render_command
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.logs.training_step import TrainingStep
from launch.run import launcher
from launch.run import watch as watching
from launch.run.host_stage import HostStage
from launch.run.watch import RunWatch
from launch.targets import clean_environment as clean
from launch.watching import monitor


class NoProcesses:
    """A WorkerProcesses without processes."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.peak_bytes = 0
        self.looks = 0

    def update_workers(self) -> None:
        self.looks += 1
        time.sleep(0.01)

    def has_living_worker(self) -> None: ...

    def wait_for_death(self, seconds: float) -> None: ...

    def close(self) -> None: ...


def make_watch(folder: Path) -> tuple[RunWatch, list[TrainingStep]]:
    said: list[TrainingStep] = []
    return RunWatch(folder, NoProcesses(), said.append), said


def make_line(step: int) -> str:
    return f"loss: {step + 0.5}, learning_rate: 1e-05, global_step: {step}\n"


def test_each_step_once(tmp_path: Path) -> None:
    """Steps repeated by the launcher and by other ranks count once."""
    for name in ("workerlog.0", "workerlog.1", "launcher.log"):
        (tmp_path / name).write_text("".join(map(make_line, range(1, 6))))
    watch, said = make_watch(tmp_path)
    watch.update_state()
    watch.update_state(final=True)

    assert [step.step for step in said] == [1, 2, 3, 4, 5]
    assert [worker.rank for worker in watch.list_workers()] == [0, 1]


def test_steps_of_another_rank(tmp_path: Path) -> None:
    """Steps are found in any log: Megatron logs the loss on its last rank."""
    (tmp_path / "workerlog.0").write_text("building the model\n")
    (tmp_path / "workerlog.3").write_text(" iteration 2/ 10 | learning rate: 1E-05 | lm loss: 2.5E+00 |\n")
    watch, said = make_watch(tmp_path)
    watch.update_state(final=True)

    assert [(step.step, step.of, step.loss) for step in said] == [(2, 10, 2.5)]


def test_last_step_comes_at_the_end(tmp_path: Path) -> None:
    """A step without number is reported at the end of the log."""
    (tmp_path / "workerlog.0").write_text("  0%|          | 0/9 [00:00<?]\r{'loss': '2.5', 'epoch': '0.1'}\n")
    watch, said = make_watch(tmp_path)
    watch.update_state()

    assert said == []
    watch.update_state(final=True)
    assert [step.loss for step in said] == [2.5]


def test_flood_is_taken_in_parts(tmp_path: Path) -> None:
    """An update reads a bounded part of a log, so that signals and deadlines are handled."""
    size = 6 * watching.CHUNK
    (tmp_path / "workerlog.0").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * (size // 100) + make_line(7))
    watch, said = make_watch(tmp_path)
    watch.update_state()

    (tail,) = watch.tails.values()
    assert tail.at == watching.CHUNKS * watching.CHUNK
    watch.update_state()
    assert [step.step for step in said] == [7]


def test_long_run_is_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very long run a sample of the steps is kept; all are reported."""
    monkeypatch.setattr(watching, "KEPT_STEPS", 100)
    (tmp_path / "workerlog.0").write_text("".join(map(make_line, range(1, 2001))))
    watch, said = make_watch(tmp_path)
    watch.update_state()

    assert len(said) == 2000
    assert len(watch.steps) <= 101
    assert (watch.steps[0].step, watch.steps[-1].step) == (1, 2000)


def test_looking_for_processes_is_paced(tmp_path: Path) -> None:
    """Scanning processes uses 1/50 of a core at first and 1/200 after a minute."""
    watch, _ = make_watch(tmp_path)
    began = time.monotonic()
    watch.update_state()
    soon = watch._family_due - began
    watch.began, watch._family_due = watch.began - 3600, 0.0
    began = time.monotonic()
    for _ in range(50):
        watch.update_state()

    assert soon >= 50 * 0.01
    assert watch._family_due - began >= 200 * 0.01
    assert watch.family.looks == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("most", "held", "inactive", "expected"),
    [("1000", "990", "0", [0.01]), ("1000", "990", "500", [0.51]), ("max", "990", "0", []), ("0", "9", "0", [])],
)
def test_memory_of_the_container(most: str, held: str, inactive: str, expected: list[float], tmp_path: Path) -> None:
    """The free share below the container's limit counts inactive file cache as free; [] without a limit."""
    texts = {"memory.max": most, "memory.current": held, "memory.stat": f"anon 1\ninactive_file {inactive}\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text + "\n")

    assert monitor._container_free_share(tmp_path) == pytest.approx(expected)
    assert monitor._container_free_share(tmp_path / "none") == []


# ---- the real torchrun

PROGRAM = """
import os, sys, time
rank = int(os.environ["RANK"])
for step in range(1, 6):
    if rank == 0:
        print({"loss": 5 - step / 2, "grad_norm": 1.0, "global_step/max_steps": f"{step}/5"}, flush=True)
    time.sleep(0.2)
    if rank == 1 and step == FAILS:
        sys.exit("ValueError: rank 1 cannot go on")
"""


def run_torchrun(environment: Path, folder: Path, fails: int, *options: str) -> launcher.TrainingEnd:
    (folder / "program.py").write_text(f"FAILS = {fails}\n{PROGRAM}")
    words = ("{python}", "-m", "torch.distributed.run", "--nproc-per-node", "2", *options, str(folder / "program.py"))
    job = RecipeJob("lora", "", words, processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render_command(recipe, job, {"python": str(environment / "bin/python"), "log_dir": str(folder / "log")})
    (folder / "log").mkdir()
    tidy = clean.clean_variables(os.environ, made, "cpu", str(folder))
    return launcher.launch_training(HostStage(recipe, None), made, tidy, folder, lambda step: None, 120)


@pytest.mark.slow
@pytest.mark.parametrize("options", ((), ("--log-dir", "{log_dir}", "--redirects", "3")), ids=("one log", "a log each"))
def test_torchrun(options: tuple[str, ...], torch_environment: Path, tmp_path: Path) -> None:
    """Steps are found in torchrun's output and in its log folder."""
    end = run_torchrun(torch_environment, tmp_path, 9, *options)

    assert end.how == "succeeded", end.launcher_lines
    assert [(step.step, step.of) for step in end.steps] == [(n, 5) for n in range(1, 6)]


@pytest.mark.slow
def test_torchrun_whose_worker_fails(torch_environment: Path, tmp_path: Path) -> None:
    """The failed rank is named with the last lines of its own log."""
    end = run_torchrun(torch_environment, tmp_path, 3, "--log-dir", "{log_dir}", "--redirects", "3")

    assert end.how == "failed"
    assert end.failed
    assert (end.failed.rank, end.failed.code) == (1, 1)
    assert "rank 1 cannot go on" in end.failed.lines[-1]
