"""Runs that must not go on, under paddle's real launcher: each is ended within its limit, with the right words."""

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

from envcheck.collect import documents, machine
from envcheck.job.command import PROGRAMS, render
from envcheck.simulate import machine_file, session
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.logs.step import TrainingStep
from launch.run import launcher, process_tree, record, run_text
from launch.run.host import HostStage
from launch.runs import shown
from launch.runs.run_state import Run
from launch.targets import clean_environment as clean
from launch.watching import cards, choose_monitor, stacks
from launch.watching.cards import Sampler
from launch.watching.monitor import Monitor
from tests.launch.fake_cards import compiled

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


def run(code: str, environment: Path, folder: Path, *limits: str, off: tuple[str, ...] = ()) -> launcher.Ending:
    """A program of two ranks under paddle's launcher, with these limits."""
    (folder / "log").mkdir()
    (folder / "program.py").write_text(textwrap.dedent(code))
    job = RecipeJob("lora", "", (*LAUNCH, str(folder / "program.py")), processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render(recipe, job, {"python": str(environment / "bin/python"), "log_dir": str(folder / "log")})
    tidy = clean.clean(os.environ, made, "cpu", str(folder))
    monitor = Monitor(choose_monitor.parse_rules(off, limits), None, folder / "log", str(folder))
    return launcher.launch(HostStage(recipe, None), made, tidy, folder, lambda step: None, 120, monitor=monitor)


def test_loss_that_is_no_number(paddle_environment: Path, tmp_path: Path) -> None:
    """Three losses in a row that are none end the run, with the first of them named and nobody left."""
    end = run(NAN, paddle_environment, tmp_path)

    assert end.how == "stopped"
    assert end.stopped
    assert end.stopped.name == "watch.loss"
    assert "no number since step 6" in end.stopped.seen
    assert 8 <= len(end.steps) < 1999
    assert process_tree.survivors(tmp_path) == []
    said = record.ending(end, 5)
    assert (said["state"], said["stopped"]["name"], said["first_failed_worker"]) == ("stopped", "watch.loss", None)


def test_train_says_why(paddle_home: Path, tmp_path: Path) -> None:
    """By the command: exit 5, the reason, the evidence and what to do on standard error, all of it in the record."""
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
        "ended early after",
        "watch.loss: the loss is lost",
        ": loss nan",
        "next: Go back to the last",
    ):
        assert words in done.stderr
    (path,) = tmp_path.glob("runs/*/run.json")
    said = json.loads(path.read_text())
    assert (said["state"], said["exit"]["code"], said["stopped"]["name"]) == ("stopped", 5, "watch.loss")
    assert said["loss"][-1][1] is None


def test_rule_that_is_switched_off(paddle_environment: Path, tmp_path: Path) -> None:
    """With --no-stop loss the same run goes on to its end."""
    end = run(NAN.replace("2000", "40"), paddle_environment, tmp_path, off=("loss",))

    assert (end.how, end.stopped, len(end.steps)) == ("finished", None, 39)


def test_no_progress(paddle_environment: Path, tmp_path: Path) -> None:
    """A run that falls silent is ended soon after its limit, and what each worker waited in is written down."""
    end = run(STALL, paddle_environment, tmp_path, "stalled.seconds=4")

    assert end.how == "stopped"
    assert end.stopped
    assert end.stopped.name == "watch.stalled"
    assert "no step for" in end.stopped.seen
    assert [line[:8] for line in end.stopped.evidence if line.startswith("worker")] == ["worker 0", "worker 1"]
    for rank in (0, 1):
        told = (tmp_path / "log" / f"stack.{rank}").read_text()
        assert "wait_for_the_others" in told or "State:" in told  # py-spy's words, or the kernel's
    assert end.seconds < 600
    assert process_tree.survivors(tmp_path) == []


def test_stack_by_py_spy(tmp_path: Path) -> None:
    """Where py-spy is there, and may look, a worker's own functions are told, not the kernel's words."""
    code = "import time\ndef wait_for_the_others():\n    print(flush=True)\n    time.sleep(60)\nwait_for_the_others()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        said = stacks.dump({3: child.pid}, tmp_path)
        child.kill()

    if "State:" in (text := (tmp_path / "stack.3").read_text()):
        pytest.skip("py-spy may not look at other processes here (ptrace)")
    assert "wait_for_the_others" in said[0] and said[0].startswith("worker 3: ")
    assert f"Process {child.pid}" in text


def test_stack_of_nobody(tmp_path: Path) -> None:
    """A process that has gone meanwhile is no error."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()

        assert stacks.dump({0: gone.pid}, tmp_path) == ("worker 0: nothing could be read of it",)


IDLE_LAUNCHER = """
import os, subprocess, sys, time
for rank, code in ((0, "import time; time.sleep(1200)"), (1, "import sys, time; time.sleep(2); sys.exit(3)")):
    subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PADDLE_TRAINER_ID": str(rank)})
time.sleep(1200)
"""


def test_launcher_that_does_not_notice(tmp_path: Path) -> None:
    """A worker that failed ends the run, though its launcher and its peer go on sleeping."""
    (tmp_path / "log").mkdir()
    job = RecipeJob("lora", "", (sys.executable, "-c", IDLE_LAUNCHER), processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render(recipe, job, {})
    tidy = clean.clean(os.environ, made, "cpu", str(tmp_path))
    end = launcher.launch(HostStage(recipe, None), made, tidy, tmp_path, lambda step: None, 1000)

    assert end.how == "failed"
    assert end.failed
    assert (end.failed.rank, end.failed.code) == (1, 3)
    assert end.seconds < 600  # its peer sleeps for twice as long
    assert process_tree.survivors(tmp_path) == []
    assert end.left == ()


def test_who_cannot_be_ended_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that is still there after the end, as one that hangs in a driver (here nobody ends it), is told."""
    (tmp_path / "log").mkdir()
    code = "import subprocess as s; print(s.Popen(['sleep', '60'], start_new_session=True).pid)"
    job = RecipeJob("lora", "", (sys.executable, "-c", code))
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render(recipe, job, {})
    monkeypatch.setattr("launch.run.host.end_survivors", lambda run: None)
    tidy = clean.clean(os.environ, made, "cpu", str(tmp_path))
    end = launcher.launch(HostStage(recipe, None), made, tidy, tmp_path, lambda step: None, 100)
    (left,) = process_tree.survivors(tmp_path)
    left.kill()
    run_text.end(tmp_path, end, (), 0)

    assert end.left == (left.pid,)
    assert record.ending(end, 0)["left"] == [left.pid]
    assert f"may hold cards: {left.pid}\n" in capsys.readouterr().err


def test_peak_beside_the_prediction() -> None:
    """What the cards grew by is what was measured, where the program itself tells nothing; on the CPU nothing is."""
    end = launcher.Ending("finished", 0, None, (TrainingStep(1.0, 1),), 0, 1.0, (), cards={"grown_mib": 2048})
    told = replace(end, steps=(TrainingStep(1.0, 1, memory_mib=1024),))

    assert record.measured(end, "npu") == 2 << 30
    assert record.measured(told, "npu") == 1 << 30
    assert record.measured(end, "cpu") is None
    assert record.measured(replace(end, cards={}), "npu") is None


def test_page_of_a_stopped_run(tmp_path: Path) -> None:
    """`runs show` names the rule, and the memory that was planned beside what was measured."""
    memory = {"predicted_bytes": 3 << 30, "measured_bytes": 2 << 30}
    said = {"stopped": {"name": "watch.loss", "seen": "lost"}, "memory": memory}
    told = shown.as_page(Run(tmp_path, "stopped", None, said))
    strange = shown.as_page(Run(tmp_path, "stopped", None, {"stopped": [1], "memory": {"predicted_bytes": "x"}}))

    assert "watch.loss: lost" in told
    assert "a card planned 3.0 GiB, measured 2.0 GiB" in told
    assert "memory" not in strange


def test_cards_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The fullest card and the one that drew most are told at the end; a tool that told nothing is not mentioned."""
    peaks = {"0": {"memory_mib": 2048, "power_w": 90.4}, "1": {"memory_mib": 1024, "power_w": 300.0}, "2": {}}
    end = launcher.Ending("finished", 0, None, (TrainingStep(1.0, 1),), 0, 1.0, (), cards={"peaks": peaks})
    run_text.end(tmp_path, end, (), 0)
    with_cards = capsys.readouterr().err
    run_text.end(tmp_path, replace(end, cards={}), (), 0)

    assert "finished after 1 s: 1 step, loss 1.000 -> 1.000\n" in with_cards
    assert "cards       at most 2 GiB, on card 0, and 300 W, on card 1" in with_cards
    assert "cards  " not in capsys.readouterr().err


# ---- cards


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    """The tools of a simulated machine of eight idle 910B cards."""
    folder = tmp_path / "atlas"
    with session.written(machine_file.load("atlas-800t-a2"), folder):
        return folder


def sampler(folder: Path, name: str = "npu") -> Sampler:
    """Looks at the simulated cards ten times a second, from their state before the start."""
    there, vendor = machine.simulated(folder), VENDORS[name]
    before = documents.document(vendor, there(vendor.devices[0])).devices
    return Sampler(there, vendor, before, every_s=0.1)


def test_training_on_the_cpu(atlas: Path, paddle_environment: Path, tmp_path: Path) -> None:
    """The tiny model trains, by a plugin that computes on the CPU, while the machine's cards stay idle: ended, said."""
    plugin = compiled(paddle_environment, "npu", tmp_path)
    for name in ("log", "output"):
        (tmp_path / name).mkdir()
    (tmp_path / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={plugin}\n")
    recipe = replace(catalogue.by_name(catalogue.load_all(), "tiny-npu"), scripts=(str(tmp_path / "set_env.sh"),))
    small = ("--device", "npu", "--steps", "3000", "--batch", "2", "--seq", "16")
    job = replace(recipe.jobs[0], arguments=(*small, "--output", "{output}", "--data", "{data}"))
    recipe = replace(recipe, jobs=(job,))
    filled = {"python": str(paddle_environment / "bin/python"), "data": str(PROGRAMS / "tiny.txt")}
    filled |= {"output": str(tmp_path / "output"), "log_dir": str(tmp_path / "log")}
    made = render(recipe, recipe.jobs[0], filled)
    tidy = clean.clean(os.environ, made, "npu", str(tmp_path))
    monitor = Monitor(
        choose_monitor.parse_rules((), ("cpu.cores=0.2",)), sampler(atlas), tmp_path / "log", str(tmp_path)
    )
    end = launcher.launch(HostStage(recipe, None), made, tidy, tmp_path, lambda step: None, 200, monitor=monitor)

    assert end.how == "stopped", end
    assert end.stopped
    assert end.stopped.name == "watch.cpu"
    assert "all 8 cards stayed idle" in end.stopped.seen
    assert any("cores of the host busy" in line for line in end.stopped.evidence)
    assert end.stopped.remedy
    assert "paddle-custom-npu" in end.stopped.remedy.words
    assert len(end.steps) < 3000
    assert len(end.cards["peaks"]) == 8
    assert end.cards["grown_mib"] == 0


@pytest.mark.parametrize("name", ("atlas-800t-a2", "atlas-800t-a3", "bi-v150x8", "h200x8", "a100x8-mig"))
def test_samples_of_each_vendor(name: str, tmp_path: Path) -> None:
    """Memory, load and power of every card of each vendor come through the tool's own words."""
    made = machine_file.load(name)
    with session.written(made, tmp_path / "there"):
        vendor = next(v for v in VENDORS.values() if v.tool and (tmp_path / "there/bin" / v.tool).exists())
        looking = sampler(tmp_path / "there", vendor.name)
        looking.start()
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


def tool(folder: Path, seconds: float) -> Sampler:
    """Looks ten times a second through an npu-smi that takes so long, and then says nothing of use."""
    (folder / "bin").mkdir()
    (folder / "bin/npu-smi").write_text(f"#!/bin/sh\nsleep {seconds}\necho none\n")
    (folder / "bin/npu-smi").chmod(0o755)
    return Sampler(machine.simulated(folder), VENDORS["npu"], (), every_s=0.1)


def test_tool_that_hangs_stalls_nobody(tmp_path: Path) -> None:
    """A tool that does not answer leaves the cards untold; closing ends it at once, and no process of it is left."""
    looking = tool(tmp_path, 300)
    looking.start()
    time.sleep(0.5)
    began = time.monotonic()
    looking.close()

    assert time.monotonic() - began < 150
    assert not looking._thread.is_alive()
    assert looking.latest == ()
    left = [child.cmdline() for child in psutil.Process().children(recursive=True) if child.status() != "zombie"]
    assert not [words for words in left if str(tmp_path) in " ".join(words)]


def test_slow_tool_is_asked_less_often(tmp_path: Path) -> None:
    """A tool that takes a third of a second rests for six: it may take a twentieth of the time."""
    looking = tool(tmp_path, 0.3)
    looking.start()
    until = time.monotonic() + 60
    while not looking.untold and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)
    looking.close()

    assert (looking.asked, looking.untold) == (1, 1)


def test_cards_of_nobody() -> None:
    """Devices that tell nothing are cards that tell nothing."""
    assert cards.cards(()) == ()
