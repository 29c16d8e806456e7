"""`envcheck train` with paddle's launcher, two processes and a real model.  About two minutes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import PROGRAMS, render_command
from envcheck.job.options import set_steps
from installers.recipes import catalogue
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.logs.training_step import TrainingStep
from launch.run import launcher, process_tree
from launch.run.host_stage import HostStage
from launch.targets import clean_environment
from launch.targets.clean_environment import MARK
from tests.launch.fake_cards import compile_plugin

ROOT = Path(__file__).parents[2]
TRAIN = (sys.executable, "-m", "envcheck", "train", "--model", "tiny", "--method", "lora", "--device", "cpu")
SECRET = "s3cr3t-of-the-test"
LEFT_OVER = {"PADDLE_TRAINER_ENDPOINTS": "10.9.9.9:1", "PADDLE_NNODES": "2", "RANK": "3", "CUDA_VISIBLE_DEVICES": "0,1"}


def make_variables(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "ENVCHECK_HOME": str(home), "NO_COLOR": "1", **more}


def run_train(home: Path, cwd: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRAIN, *more], cwd=cwd, env=make_variables(home, **env), capture_output=True, text=True, timeout=240
    )


@contextlib.contextmanager
def start_run(home: Path, cwd: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a long run and wait for its first step."""
    with subprocess.Popen(
        [*TRAIN, *more], cwd=cwd, env=make_variables(home), stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stderr
            for line in child.stderr:
                if line.startswith("step "):
                    break
            yield child
        finally:
            child.kill()


def read_record(cwd: Path) -> dict[str, Any]:
    (path,) = (cwd / "runs").glob("*/run.json")
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def list_remaining_processes(cwd: Path) -> list[psutil.Process]:
    """Return the processes of all runs below this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK, "").startswith(str(cwd)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.fixture(scope="module")
def good(paddle_home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The README's command with everything installed, and leftover variables and a secret in the environment."""
    cwd = tmp_path_factory.mktemp("good")
    return cwd, run_train(paddle_home, cwd, "--provision", "--yes", "--json", MY_TOKEN=SECRET, **LEFT_OVER)


def test_loss_falls(good: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """Fifty steps in two processes reduce the loss; exit code 0."""
    _, done = good

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    losses = [loss for _, loss in said["loss"]]
    assert [step for step, _ in said["loss"]] == list(range(1, 51))
    assert 5 < losses[0] < 6.5  # an untrained model guesses one of 256 bytes: ln 256 is 5.55
    assert sum(losses[-5:]) / 5 < losses[0] - 2


def test_record(good: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """The record has facts, plan, command, versions, exit code, loss and memory; --json prints it."""
    cwd, done = good
    said = read_record(cwd)

    assert said == json.loads(done.stdout)
    assert (said["schema"], said["state"], said["exit"]) == (SCHEMA_VERSION, "succeeded", {"code": 0, "status": 0})
    assert said["first_failed_worker"] is None
    assert said["leftover_pids"] == []
    assert said["plan"]["processes"] == 2
    assert "paddle.distributed.launch" in said["command"]
    assert said["versions"]["packages"]["paddlepaddle"]
    assert said["facts"]["host"]["cpu_count"]
    assert said["peak_memory_mib"]["host"] > 300
    assert said["tokens_per_s"] > 0
    assert set(LEFT_OVER) <= set(said["dropped_variables"]["stale"])
    assert "MY_TOKEN" in said["dropped_variables"]["secret"]


def test_no_secret_in_the_folder(good: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """Paddle's copies of the environment are removed, and the log folder is private."""
    cwd, _ = good
    files = [path for path in (cwd / "runs").rglob("*") if path.is_file()]
    (log,) = (cwd / "runs").glob("*/log")

    assert stat.S_IMODE(log.stat().st_mode) == 0o700
    assert {path.name for path in log.iterdir()} == {"envcheck.log", "launcher.log", "workerlog.0", "workerlog.1"}
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_ranks_are_equal_and_checkpoint_loads(
    good: tuple[Path, subprocess.CompletedProcess[str]], paddle_environment: Path, tmp_path: Path
) -> None:
    """Both ranks have equal parameters at the end; the checkpoint restores the model."""
    cwd, _ = good
    said = read_record(cwd)
    (log,) = (cwd / "runs").glob("*/log/workerlog.0")
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"event"')]
    argv = [str(paddle_environment / "bin/python"), str(PROGRAMS / "tiny.py"), "--output", str(tmp_path / "o")]
    again = subprocess.run(
        [*argv, "--steps", "1", "--resume", said["checkpoints"][-1]], capture_output=True, text=True, timeout=120
    )

    assert (events[-1]["event"], events[-1]["ranks"], events[-1]["equal"]) == ("done", 2, True)
    assert again.returncode == 0, again.stderr
    first = next(json.loads(line) for line in again.stdout.splitlines() if '"loss"' in line)
    assert first["loss"] < said["loss"][0][1] - 2


def test_curve_is_drawn(good: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """The loss curve is drawn as SVG and as text."""
    cwd, done = good
    (picture,) = (cwd / "runs").glob("*/loss.svg")

    assert picture.read_text().startswith("<svg ")
    assert "loss" in done.stderr
    assert done.stderr.count("*") > 20


def test_interrupt_ends_all(paddle_home: Path, tmp_path: Path) -> None:
    """A second run in the folder is refused; Ctrl-C ends all processes, with exit code 130 and a record."""
    with start_run(paddle_home, tmp_path, "--steps", "2000") as child:
        second = run_train(paddle_home, tmp_path, "--steps", "5")
        running, holder = list_remaining_processes(tmp_path), read_record(tmp_path)["pid"]
        child.send_signal(signal.SIGINT)
        code = child.wait(300)

    assert (second.returncode, "gate.alone" in second.stderr, str(holder) in second.stderr) == (1, True, True)
    assert len(running) >= 3  # the launcher and its two workers
    assert code == 130
    assert list_remaining_processes(tmp_path) == []
    said = read_record(tmp_path)
    assert (said["state"], said["exit"]["code"]) == ("stopped", 130)
    assert said["loss"]


def test_killed_worker_is_named(paddle_home: Path, tmp_path: Path) -> None:
    """A worker killed by SIGKILL is named, not the one that lost its connection to it."""
    with start_run(paddle_home, tmp_path, "--steps", "2000") as child:
        workers = [p for p in list_remaining_processes(tmp_path) if p.environ().get("PADDLE_TRAINER_ID") == "1"]
        workers[0].kill()
        code = child.wait(90)

    failed = read_record(tmp_path)["first_failed_worker"]
    assert code == 5
    assert (failed["rank"], failed["code"]) == (1, -9)
    assert list_remaining_processes(tmp_path) == []


def test_provision_with_a_manual_step_continues(paddle_home: Path, tmp_path: Path) -> None:
    """--provision continues with the gates if only the manual driver step is left."""
    write_recipe(tmp_path, "interpreter =", 'driver_minimum = { value = "1.0", source = "test" }\ninterpreter =')
    done = run_train(paddle_home, tmp_path, "--recipes", "own", "--provision", "--yes", "--steps", "2")

    assert done.returncode == 0, done.stderr
    assert re.search(r"^ *manual +driver ", done.stderr, re.MULTILINE)
    assert read_record(tmp_path)["state"] == "succeeded"


def test_bad_share_of_the_data(paddle_home: Path, tmp_path: Path) -> None:
    """Invalid data for rank 1: exit code 5 names rank 1, although the launcher reports 241 for rank 0."""
    text = (PROGRAMS / "tiny.txt").read_bytes()
    (tmp_path / "data.txt").write_bytes(text[:-2000] + b"\xff\xfe" + text[-2000:])
    check_refusal(run_train(paddle_home, tmp_path, "--data", "data.txt"), tmp_path, "gate.data")
    done = run_train(
        paddle_home,
        tmp_path,
        "--data",
        "data.txt",
        "--waive",
        "data",
        "--because",
        "to see it fail",
        "--waive",
        "disk",
        "--because",
        "in vain",
    )

    assert done.returncode == 5
    assert "note: --waive disk had no effect" in done.stderr
    assert "gate.data: waived (to see it fail): " in done.stderr
    assert read_record(tmp_path)["waived"] == ["data: to see it fail"]
    failed = read_record(tmp_path)["first_failed_worker"]
    assert failed["rank"] == 1
    assert "not valid UTF-8 at byte" in failed["lines"][-1]
    assert "worker 1 failed first" in done.stderr


def test_launcher_that_starts_no_worker(paddle_home: Path, tmp_path: Path) -> None:
    """A command that paddle rejects is exit code 4, with the launcher's output."""
    write_recipe(tmp_path, '"--nproc_per_node"', '"--devices", "0,1", "--nproc_per_node"')
    done = run_train(paddle_home, tmp_path, "--recipes", "own")

    assert done.returncode == 4, done.stderr
    assert "ValueError" in done.stderr
    assert read_record(tmp_path)["state"] == "unstarted"


def write_recipe(folder: Path, old: str, new: str) -> None:
    text = (ROOT / "installers/recipes/tiny-cpu.toml").read_text()
    assert old in text
    (folder / "own").mkdir()
    (folder / "own/tiny-cpu.toml").write_text(text.replace(old, new))


def check_refusal(done: subprocess.CompletedProcess[str], cwd: Path, gate: str) -> None:
    assert done.returncode == 1, done.stderr
    assert f"  {gate}: " in done.stderr
    assert "    fix: " in done.stderr or "    next: " in done.stderr
    assert "the training was not started" in done.stderr
    assert not [path for path in cwd.glob("runs/*") if path.name != ".lock"]


# ---- the same program on accelerators that are not there


@pytest.fixture(scope="module")
def plugin(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plugin for two `npu` devices."""
    return compile_plugin(paddle_environment, "npu", tmp_path_factory.mktemp("plugin"))


def make_npu_recipe(plugin: Path, folder: Path, **more: str) -> Recipe:
    """A recipe for two Ascend cards; the script that it sources replaces CANN's and selects the plugin."""
    (folder / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={plugin}\n")
    recipe = catalogue.find_recipe(catalogue.load_all(), "tiny-npu")
    job = set_steps(recipe.jobs[0], 5)
    return replace(
        recipe,
        jobs=(replace(job, arguments=(*job.arguments, "--batch", "2", "--seq", "16")),),
        scripts=(str(folder / "set_env.sh"),),
        environment={**recipe.environment, "OMP_NUM_THREADS": "1", **more},
    )


def run_npu_job(recipe: Recipe, python: Path, run: Path) -> launcher.TrainingEnd:
    for name in ("log", "output"):
        (run / name).mkdir()
    values = {"python": str(python), "output": str(run / "output"), "log_dir": str(run / "log")}
    made = render_command(recipe, recipe.jobs[0], values)
    return launcher.launch_training(
        HostStage(recipe, None),
        made,
        clean_environment.clean_variables(os.environ, made, "npu", str(run)),
        run,
        lambda step: None,
        200,
    )


def test_accelerator(plugin: Path, paddle_environment: Path, tmp_path: Path) -> None:
    """The tiny model trains on two npu devices with paddle's launcher and the plugin's collectives."""
    end = run_npu_job(make_npu_recipe(plugin, tmp_path), paddle_environment / "bin/python", tmp_path)

    assert end.how == "succeeded", end
    assert [step.step for step in end.steps] == [1, 2, 3, 4, 5]
    assert end.steps[-1].loss < end.steps[0].loss
    assert (tmp_path / "output/checkpoint-5/weights.npz").exists()


def test_accelerator_whose_all_reduce_does_nothing(plugin: Path, paddle_environment: Path, tmp_path: Path) -> None:
    """A backend whose all-reduce does nothing (accepted by paddle's run_check) fails before step 1."""
    end = run_npu_job(make_npu_recipe(plugin, tmp_path, FAKE_SILENT="1"), paddle_environment / "bin/python", tmp_path)

    assert (end.how, end.steps) == ("failed", ())
    assert end.failed
    assert "all-reduce over 2 ranks returned" in end.failed.lines[-1]


def test_deadline(tmp_path: Path) -> None:
    """A run beyond its deadline is ended, including processes in other sessions."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '1200'], start_new_session=True); time.sleep(1200)"
    recipe = Recipe(
        "slow", "", "cpu", "envcheck", ("x",), Hardware("any"), (RecipeJob("lora", "", (sys.executable, "-c", code)),)
    )
    made = render_command(recipe, recipe.jobs[0], {})
    began = time.monotonic()
    said: list[TrainingStep] = []
    tidy = clean_environment.clean_variables(os.environ, made, "cpu", str(tmp_path))
    end = launcher.launch_training(HostStage(recipe, None), made, tidy, tmp_path, said.append, 1.5)

    assert (end.how, said) == ("deadline", [])
    assert time.monotonic() - began < 600
    assert process_tree.find_survivors(tmp_path) == []
