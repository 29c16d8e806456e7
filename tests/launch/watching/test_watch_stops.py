"""Stop rules with paddle's launcher: each run is ended within its limit with the right message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from envcheck.collect import answer_parsers, answer_sources
from envcheck.job.command import PROGRAMS, render_command
from envcheck.simulate import machine_file, simulated_run
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.logs.training_step import TrainingStep
from launch.run import launcher, process_tree, record, run_text
from launch.run.host_stage import HostStage
from launch.runs import run_pages
from launch.runs.run_state import Run
from launch.targets import clean_environment as clean
from launch.watching import card_sampler, choose_monitor, stacks
from launch.watching.card_sampler import CardSampler
from launch.watching.monitor import Monitor
from tests.launch.fake_cards import compile_plugin

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NAN = """
import os, time
for step in range(1, 2000):
    if os.environ["PADDLE_TRAINER_ID"] == "0":
        loss = 5 - step / 10 if step < 6 else float("nan")
        print(f"[    INFO] - loss: {loss}, learning_rate: 1e-05, global_step: {step}", flush=True)
    time.sleep(0.1)
"""
STALL = """
import os, time

def wait_for_the_others():
    time.sleep(600)

for step in range(1, 4):
    print(f"{{'loss': {5 - step}, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': {step / 10}}}", flush=True)
    time.sleep(0.3)
wait_for_the_others()
"""
LAUNCH = ("{python}", "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", "{log_dir}")


def run_ranks(
    code: str, environment: Path, folder: Path, *limits: str, off: tuple[str, ...] = ()
) -> launcher.TrainingEnd:
    """A program with two ranks under paddle's launcher, with these limits."""
    (folder / "log").mkdir()
    (folder / "program.py").write_text(textwrap.dedent(code))
    job = RecipeJob("lora", "", (*LAUNCH, str(folder / "program.py")), processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render_command(recipe, job, {"python": str(environment / "bin/python"), "log_dir": str(folder / "log")})
    tidy = clean.clean_variables(os.environ, made, "cpu", str(folder))
    monitor = Monitor(choose_monitor.parse_rules(off, limits), None, folder / "log", str(folder))
    return launcher.launch_training(
        HostStage(recipe, None), made, tidy, folder, lambda step: None, 120, monitor=monitor
    )


def test_loss_that_is_no_number(paddle_environment: Path, tmp_path: Path) -> None:
    """Three NaN losses in a row end the run; the first is named; no process remains."""
    end = run_ranks(NAN, paddle_environment, tmp_path)

    assert end.how == "rule"
    assert end.stopped
    assert end.stopped.name == "watch.loss"
    assert "NaN or infinite since step 6" in end.stopped.seen
    assert 8 <= len(end.steps) < 1999
    assert process_tree.find_survivors(tmp_path) == []
    said = record.build_end_values(end, 5)
    assert (said["state"], said["stopped"]["name"], said["first_failed_worker"]) == ("stopped", "watch.loss", None)


def test_train_reports_the_stop_rule(paddle_home: Path, tmp_path: Path) -> None:
    """The command exits with code 5 and prints and records reason, evidence and next step."""
    (tmp_path / "program.py").write_text(NAN)
    text = (ROOT / "installers/recipes/tiny-cpu.toml").read_text()
    assert '"{program}"' in text
    (tmp_path / "own").mkdir()
    (tmp_path / "own/tiny-cpu.toml").write_text(text.replace('"{program}"', f'"{tmp_path}/program.py"'))
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "train",
        "--recipe",
        "tiny-cpu",
        "--recipes",
        "own",
        "--data",
        "program.py",
    ]
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)

    assert done.returncode == 5, done.stderr
    for words in (
        "stopped by a stop rule after",
        "watch.loss: the loss diverged",
        ": loss nan",
        "next: Resume from the last checkpoint",
    ):
        assert words in done.stderr
    (path,) = tmp_path.glob("runs/*/run.json")
    said = json.loads(path.read_text())
    assert (said["state"], said["exit"]["code"], said["stopped"]["name"]) == ("stopped", 5, "watch.loss")
    assert said["loss"][-1][1] is None


def test_rule_that_is_switched_off(paddle_environment: Path, tmp_path: Path) -> None:
    """With --no-stop loss the same run continues to its end."""
    end = run_ranks(NAN.replace("2000", "40"), paddle_environment, tmp_path, off=("loss",))

    assert (end.how, end.stopped, len(end.steps)) == ("succeeded", None, 39)


def test_no_progress(paddle_environment: Path, tmp_path: Path) -> None:
    """A stalled run is ended soon after its limit, and the workers' stacks are saved."""
    end = run_ranks(STALL, paddle_environment, tmp_path, "stalled.seconds=4")

    assert end.how == "rule"
    assert end.stopped
    assert end.stopped.name == "watch.stalled"
    assert "no step for" in end.stopped.seen
    assert [line[:8] for line in end.stopped.evidence if line.startswith("worker")] == ["worker 0", "worker 1"]
    for rank in (0, 1):
        told = (tmp_path / "log" / f"stack.{rank}").read_text()
        assert "wait_for_the_others" in told or "State:" in told  # py-spy's words, or the kernel's
    assert end.seconds < 600
    assert process_tree.find_survivors(tmp_path) == []


def test_stack_by_py_spy(tmp_path: Path) -> None:
    """With py-spy the Python functions are reported instead of the kernel state."""
    code = "import time\ndef wait_for_the_others():\n    print(flush=True)\n    time.sleep(60)\nwait_for_the_others()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        said = stacks.dump_stacks({3: child.pid}, tmp_path)
        child.kill()

    if "State:" in (text := (tmp_path / "stack.3").read_text()):
        pytest.skip("py-spy may not look at other processes here (ptrace)")
    assert "wait_for_the_others" in said[0] and said[0].startswith("worker 3: ")
    assert f"Process {child.pid}" in text


def test_stack_of_an_ended_process(tmp_path: Path) -> None:
    """A process that has ended is not an error."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()

        assert stacks.dump_stacks({0: gone.pid}, tmp_path) == ("worker 0: cannot read its stack",)


IDLE_LAUNCHER = """
import os, subprocess, sys, time
for rank, code in ((0, "import time; time.sleep(1200)"), (1, "import sys, time; time.sleep(2); sys.exit(3)")):
    subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PADDLE_TRAINER_ID": str(rank)})
time.sleep(1200)
"""


def test_launcher_that_does_not_notice(tmp_path: Path) -> None:
    """A failed worker ends the run although its launcher and peer still sleep."""
    (tmp_path / "log").mkdir()
    job = RecipeJob("lora", "", (sys.executable, "-c", IDLE_LAUNCHER), processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render_command(recipe, job, {})
    tidy = clean.clean_variables(os.environ, made, "cpu", str(tmp_path))
    end = launcher.launch_training(HostStage(recipe, None), made, tidy, tmp_path, lambda step: None, 1000)

    assert end.how == "failed"
    assert end.failed
    assert (end.failed.rank, end.failed.code) == (1, 3)
    assert end.seconds < 600  # its peer sleeps for twice as long
    assert process_tree.find_survivors(tmp_path) == []
    assert end.left == ()


def test_surviving_processes_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that survives the end, such as one hanging in a driver, is reported."""
    (tmp_path / "log").mkdir()
    code = "import subprocess as s; print(s.Popen(['sleep', '60'], start_new_session=True).pid)"
    job = RecipeJob("lora", "", (sys.executable, "-c", code))
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render_command(recipe, job, {})
    monkeypatch.setattr(process_tree, "end_survivors", lambda run, more=(): None)
    tidy = clean.clean_variables(os.environ, made, "cpu", str(tmp_path))
    end = launcher.launch_training(HostStage(recipe, None), made, tidy, tmp_path, lambda step: None, 100)
    (left,) = process_tree.find_survivors(tmp_path)
    left.kill()
    run_text.print_end(tmp_path, end, (), 0)

    assert end.left == (left.pid,)
    assert record.build_end_values(end, 0)["leftover_pids"] == [left.pid]
    assert f"possibly using cards: {left.pid}\n" in capsys.readouterr().err


def test_measured_peak() -> None:
    """Without a value from the program the growth of the cards' memory is recorded; nothing on the CPU."""
    end = launcher.TrainingEnd("succeeded", 0, None, (TrainingStep(1.0, 1),), 0, 1.0, (), cards={"increase_mib": 2048})
    told = replace(end, steps=(TrainingStep(1.0, 1, memory_mib=1024),))

    assert record.measured_peak_bytes(end, "npu") == 2 << 30
    assert record.measured_peak_bytes(told, "npu") == 1 << 30
    assert record.measured_peak_bytes(end, "cpu") is None
    assert record.measured_peak_bytes(replace(end, cards={}), "npu") is None


def test_page_of_a_stopped_run(tmp_path: Path) -> None:
    """`runs show` names the rule, and planned and measured memory."""
    memory = {"predicted_bytes": 3 << 30, "measured_bytes": 2 << 30}
    said = {"stopped": {"name": "watch.loss", "seen": "lost"}, "memory": memory}
    told = run_pages.as_page(Run(tmp_path, "stopped", None, said))
    strange = run_pages.as_page(Run(tmp_path, "stopped", None, {"stopped": [1], "memory": {"predicted_bytes": "x"}}))

    assert "watch.loss: lost" in told
    assert "planned per card 3.0 GiB, measured 2.0 GiB" in told
    assert "memory" not in strange


def test_peaks_of_cards_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The end of a run names the cards with the highest memory and power; nothing without data."""
    peaks = {"0": {"memory_mib": 2048, "power_w": 90.4}, "1": {"memory_mib": 1024, "power_w": 300.0}, "2": {}}
    end = launcher.TrainingEnd("succeeded", 0, None, (TrainingStep(1.0, 1),), 0, 1.0, (), cards={"peaks": peaks})
    run_text.print_end(tmp_path, end, (), 0)
    with_cards = capsys.readouterr().err
    run_text.print_end(tmp_path, replace(end, cards={}), (), 0)

    assert "succeeded after 1 s: 1 step, loss 1.000 -> 1.000\n" in with_cards
    assert "cards       up to 2 GiB on card 0, up to 300 W on card 1" in with_cards
    assert "cards  " not in capsys.readouterr().err


# ---- cards


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    """The tools of a simulated machine with eight idle 910B cards."""
    folder = tmp_path / "atlas"
    with simulated_run.write_machine_folder(machine_file.load_machine("atlas-800t-a2"), folder):
        return folder


def make_sampler(folder: Path, name: str = "npu") -> CardSampler:
    """Sample the simulated cards ten times a second."""
    there, vendor = answer_sources.simulated_machine(folder), VENDORS[name]
    before = answer_parsers.parse_answer(vendor, there(vendor.devices[0])).devices
    return CardSampler(there, vendor, before, every_s=0.1)


def test_training_on_the_cpu(atlas: Path, paddle_environment: Path, tmp_path: Path) -> None:
    """A training that computes on the CPU while the cards are idle is ended."""
    plugin = compile_plugin(paddle_environment, "npu", tmp_path)
    for name in ("log", "output"):
        (tmp_path / name).mkdir()
    (tmp_path / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={plugin}\n")
    recipe = replace(catalogue.find_recipe(catalogue.load_all(), "tiny-npu"), scripts=(str(tmp_path / "set_env.sh"),))
    small = ("--device", "npu", "--steps", "3000", "--batch", "2", "--seq", "16")
    job = replace(recipe.jobs[0], arguments=(*small, "--output", "{output}", "--data", "{data}"))
    recipe = replace(recipe, jobs=(job,))
    filled = {"python": str(paddle_environment / "bin/python"), "data": str(PROGRAMS / "tiny.txt")}
    filled |= {"output": str(tmp_path / "output"), "log_dir": str(tmp_path / "log")}
    made = render_command(recipe, recipe.jobs[0], filled)
    tidy = clean.clean_variables(os.environ, made, "npu", str(tmp_path))
    monitor = Monitor(
        choose_monitor.parse_rules((), ("cpu.cores=0.2",)), make_sampler(atlas), tmp_path / "log", str(tmp_path)
    )
    end = launcher.launch_training(
        HostStage(recipe, None), made, tidy, tmp_path, lambda step: None, 200, monitor=monitor
    )

    assert end.how == "rule", end
    assert end.stopped
    assert end.stopped.name == "watch.cpu"
    assert "while all 8 cards were idle" in end.stopped.seen
    assert any("CPU cores" in line for line in end.stopped.evidence)
    assert end.stopped.remedy
    assert "paddle-custom-npu" in end.stopped.remedy.words
    assert len(end.steps) < 3000
    assert len(end.cards["peaks"]) == 8
    assert end.cards["increase_mib"] == 0


@pytest.mark.parametrize("name", ("atlas-800t-a2", "atlas-800t-a3", "bi-v150x8", "h200x8", "a100x8-mig"))
def test_samples_of_each_vendor(name: str, tmp_path: Path) -> None:
    """Memory, load and power of all cards are parsed for each vendor."""
    made = machine_file.load_machine(name)
    with simulated_run.write_machine_folder(made, tmp_path / "there"):
        vendor = next(v for v in VENDORS.values() if v.tool and (tmp_path / "there/bin" / v.tool).exists())
        looking = make_sampler(tmp_path / "there", vendor.name)
        looking.start_sampling()
        until = time.monotonic() + 120
        while not looking.latest and time.monotonic() < until:
            time.sleep(0.05)
        looking.close()

    assert looking.latest
    found = looking.latest[-1].cards
    assert [card.label for card in found] == [card.label for card in looking.before.cards]
    assert all(card.used_mib is not None and card.total_mib for card in found)
    assert looking.grown_mib() == 0
    assert {"memory_mib"} <= set(looking.peaks[found[0].label])


def make_slow_sampler(folder: Path, seconds: float) -> CardSampler:
    """Sample ten times a second with an npu-smi that is slow and prints nothing useful."""
    (folder / "bin").mkdir()
    (folder / "bin/npu-smi").write_text(f"#!/bin/sh\nsleep {seconds}\necho none\n")
    (folder / "bin/npu-smi").chmod(0o755)
    return CardSampler(answer_sources.simulated_machine(folder), VENDORS["npu"], (), every_s=0.1)


def test_hanging_tool_blocks_nothing(tmp_path: Path) -> None:
    """A hanging tool yields no samples; closing ends it immediately."""
    looking = make_slow_sampler(tmp_path, 300)
    looking.start_sampling()
    time.sleep(0.5)
    began = time.monotonic()
    looking.close()

    assert time.monotonic() - began < 150
    assert not looking._thread.is_alive()
    assert looking.latest == ()
    left = [child.cmdline() for child in psutil.Process().children(recursive=True) if child.status() != "zombie"]
    assert not [words for words in left if str(tmp_path) in " ".join(words)]


def test_slow_tool_is_asked_less_often(tmp_path: Path) -> None:
    """A tool that takes 0.3 s runs every 6 s: at most 1/20 of the time."""
    looking = make_slow_sampler(tmp_path, 0.3)
    looking.start_sampling()
    until = time.monotonic() + 60
    while not looking.failed and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)
    looking.close()

    assert (looking.asked, looking.failed) == (1, 1)


def test_devices_without_data() -> None:
    """Devices without data yield samples without data."""
    assert card_sampler.build_samples(()) == ()
