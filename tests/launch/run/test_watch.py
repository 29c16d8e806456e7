"""Following a run's logs: whose steps count, under the real torchrun as well, and what a flood of them costs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from envcheck.job.command import render
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.logs.step import TrainingStep
from launch.run import launcher
from launch.run import watch as watching
from launch.run.host import HostStage
from launch.run.watch import Watch
from launch.targets import clean_environment as clean
from launch.watching import monitor


class Nobody:
    """A family without processes."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.peak_bytes = 0
        self.looks = 0

    def look(self) -> None:
        self.looks += 1
        time.sleep(0.01)

    def living(self) -> None: ...

    def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


def watch_of(folder: Path) -> tuple[Watch, list[TrainingStep]]:
    said: list[TrainingStep] = []
    return Watch(folder, Nobody(), said.append), said


def line(step: int) -> str:
    return f"loss: {step + 0.5}, learning_rate: 1e-05, global_step: {step}\n"


def test_each_step_once(tmp_path: Path) -> None:
    """What a launcher repeats of its first worker, and ranks of each other, counts once."""
    for name in ("workerlog.0", "workerlog.1", "launcher.log"):
        (tmp_path / name).write_text("".join(map(line, range(1, 6))))
    watch, said = watch_of(tmp_path)
    watch.look()
    watch.look(final=True)

    assert [step.step for step in said] == [1, 2, 3, 4, 5]
    assert [worker.rank for worker in watch.workers()] == [0, 1]


def test_steps_of_another_rank(tmp_path: Path) -> None:
    """Megatron's last rank tells the loss: it is found wherever it is."""
    (tmp_path / "workerlog.0").write_text("building the model\n")
    (tmp_path / "workerlog.3").write_text(" iteration 2/ 10 | learning rate: 1E-05 | lm loss: 2.5E+00 |\n")
    watch, said = watch_of(tmp_path)
    watch.look(final=True)

    assert [(step.step, step.of, step.loss) for step in said] == [(2, 10, 2.5)]


def test_last_step_comes_at_the_end(tmp_path: Path) -> None:
    """A step that waits for the bar that would number it is told when there is no more to come."""
    (tmp_path / "workerlog.0").write_text("  0%|          | 0/9 [00:00<?]\r{'loss': '2.5', 'epoch': '0.1'}\n")
    watch, said = watch_of(tmp_path)
    watch.look()

    assert said == []
    watch.look(final=True)
    assert [step.loss for step in said] == [2.5]


def test_flood_is_taken_in_parts(tmp_path: Path) -> None:
    """One look reads a bounded part of a log, so that Ctrl-C and the clock are heard in between."""
    size = 6 * watching.CHUNK
    (tmp_path / "workerlog.0").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * (size // 100) + line(7))
    watch, said = watch_of(tmp_path)
    watch.look()

    (tail,) = watch.tails.values()
    assert tail.at == watching.CHUNKS * watching.CHUNK
    watch.look()
    assert [step.step for step in said] == [7]


def test_long_run_is_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very long run the first, the last and every now and then one between are kept; every one is told."""
    monkeypatch.setattr(watching, "KEPT_STEPS", 100)
    (tmp_path / "workerlog.0").write_text("".join(map(line, range(1, 2001))))
    watch, said = watch_of(tmp_path)
    watch.look()

    assert len(said) == 2000
    assert len(watch.steps) <= 101
    assert (watch.steps[0].step, watch.steps[-1].step) == (1, 2000)


def test_looking_for_processes_is_paced(tmp_path: Path) -> None:
    """A look that takes long is not made often: a fiftieth of a core at first, a two hundredth after a minute."""
    watch, _ = watch_of(tmp_path)
    began = time.monotonic()
    watch.look()
    soon = watch._family_due - began
    watch.began, watch._family_due = watch.began - 3600, 0.0
    began = time.monotonic()
    for _ in range(50):
        watch.look()

    assert soon >= 50 * 0.01
    assert watch._family_due - began >= 200 * 0.01
    assert watch.family.looks == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("most", "held", "inactive", "expected"),
    [("1000", "990", "0", [0.01]), ("1000", "990", "500", [0.51]), ("max", "990", "0", []), ("0", "9", "0", [])],
)
def test_memory_of_the_container(most: str, held: str, inactive: str, expected: list[float], tmp_path: Path) -> None:
    """What is left below the container's own limit, files in memory counted as free; no limit is no answer."""
    texts = {"memory.max": most, "memory.current": held, "memory.stat": f"anon 1\ninactive_file {inactive}\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text + "\n")

    assert monitor._of_container(tmp_path) == pytest.approx(expected)
    assert monitor._of_container(tmp_path / "none") == []


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


def torchrun(environment: Path, folder: Path, fails: int, *options: str) -> launcher.Ending:
    (folder / "program.py").write_text(f"FAILS = {fails}\n{PROGRAM}")
    words = ("{python}", "-m", "torch.distributed.run", "--nproc-per-node", "2", *options, str(folder / "program.py"))
    job = RecipeJob("lora", "", words, processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render(recipe, job, {"python": str(environment / "bin/python"), "log_dir": str(folder / "log")})
    (folder / "log").mkdir()
    tidy = clean.clean(os.environ, made, "cpu", str(folder))
    return launcher.launch(HostStage(recipe, None), made, tidy, folder, lambda step: None, 120)


@pytest.mark.slow
@pytest.mark.parametrize("options", ((), ("--log-dir", "{log_dir}", "--redirects", "3")), ids=("one log", "a log each"))
def test_torchrun(options: tuple[str, ...], torch_environment: Path, tmp_path: Path) -> None:
    """Steps are found where torchrun leaves what its workers say: in its own words, or in files below a folder."""
    end = torchrun(torch_environment, tmp_path, 9, *options)

    assert end.how == "finished", end.launcher_lines
    assert [(step.step, step.of) for step in end.steps] == [(n, 5) for n in range(1, 6)]


@pytest.mark.slow
def test_torchrun_whose_worker_fails(torch_environment: Path, tmp_path: Path) -> None:
    """The rank that failed is named, with its own last words from its own file."""
    end = torchrun(torch_environment, tmp_path, 3, "--log-dir", "{log_dir}", "--redirects", "3")

    assert end.how == "failed"
    assert end.failed
    assert (end.failed.rank, end.failed.code) == (1, 1)
    assert "rank 1 cannot go on" in end.failed.lines[-1]
