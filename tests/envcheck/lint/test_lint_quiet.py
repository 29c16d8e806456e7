"""Scripts that are right are left alone: strange ones in other projects' manner, and all that envcheck writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.job.command import render
from envcheck.job.script import script
from envcheck.lint import lint
from envcheck.lint.lint import Result
from envcheck.scripts import source
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from launch.written import contents
from tests.envcheck.checks.doctor_helpers import simulated
from tests.installers.test_as_script import MACHINES
from tests.tiers import thin_out

ROOT = Path(__file__).parents[3]
STRANGE = sorted((ROOT / "tests/data/lint/strange").glob("*.sh"))
OFFERS = [(recipe, job) for recipe in catalogue.load_all() for job in recipe.jobs]
NAMES = ["-".join(filter(None, (recipe.name, job.method, job.variant, job.role))) for recipe, job in OFFERS]
# What the recipes tell in their own notes, and keep as the published set-ups have it.
TOLD = {"training.bubble", "training.heads", "training.offload"}


def judged(name: str, text: str, device: str = "auto") -> Result:
    return lint.lint(source.of(name, text.encode()), TargetMachine(lambda: Facts(), live=True), device, others=False)


def said(result: Result) -> list[tuple[str, str]]:
    return [(remark.rule, remark.seen) for remark in result.remarks if remark.rule not in TOLD]


@pytest.mark.parametrize("path", STRANGE, ids=lambda path: path.stem)
def test_strange_scripts(path: Path) -> None:
    """Arrays, strings of arguments, functions, getopts, job platforms and containers raise no false alarm."""
    result = judged(path.name, path.read_text())
    files = {"paths.missing"}  # the project of the example is not here

    assert [each for each in said(result) if each[0] not in files] == []


def test_strange_scripts_are_read() -> None:
    """They are quiet since they are right: a wrong figure in the midst of each is found."""
    breaks = {
        "megatron.sh": ("--lr-warmup-iters 2000", "--lr-warmup-iters 2000000", "training.warmup"),
        "strings.sh": ("--save-interval 1000 ", "--save-interval 9000 ", "training.never"),
        "functions.sh": ("start 2000 100", "start 2000 9000", "training.warmup"),
        "slurm.sh": ("--warmup_steps 100", "--warmup_steps 9999", "training.warmup"),
        "swift.sh": ("CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=0", "launch.processes"),
        "factory.sh": ("--cutoff_len 2048", "--cutof_len 2048", "options.unknown"),
        "paddle.sh": ("--tensor_parallel_degree 8", "--tensor_parallel_degree 5", "training.world"),
        "container.sh": ("--nproc_per_node=8", "--nproc_per_nod=8", "launch.option"),
        "accelerate.sh": ("--num_processes 8", "--num_procesess 8", "launch.option"),
        "deepspeed.sh": ("--max_seq_len 512 --learning_rate 9.65e-6", "--learning_rate 9.65", "training.rate"),
        "hosts.sh": (
            'ssh 192.0.2.2 "cd /w; torchrun',
            'ssh 192.0.2.2 "cd /w; torchrun --nproc_per_nod 2',
            "launch.option",
        ),
        "overrides.sh": ("files=", "other=1\nfile=", "shell.unset_variable"),
    }
    found = {}
    for path in STRANGE:
        before, after, rule = breaks[path.name]
        assert before in path.read_text()
        result = judged(path.name, path.read_text().replace(before, after))
        found[path.name] = rule in {remark.rule for remark in result.remarks}

    assert found == dict.fromkeys(breaks, True)


@pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
def test_own_trainings(recipe: Recipe, job: RecipeJob) -> None:
    """What envcheck train writes as a script and as files is clean, but for what the recipe's own notes tell."""
    command = render(recipe, job)
    texts = {"run.sh": script(command), **contents(command, job)}
    texts.pop("command.json")

    assert {name: said(judged(name, text)) for name, text in texts.items()} == {name: [] for name in texts}


@pytest.mark.slow
@pytest.mark.parametrize("name", thin_out(4, sorted(MACHINES)))
def test_own_provisioning(name: str, tmp_path: Path) -> None:
    """What envcheck provision writes as a script for the recipe's machine is clean there."""
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    base = [sys.executable, "-m", "envcheck", "simulate", MACHINES[name], "--", sys.executable, "-m", "envcheck"]
    argv = [*base, "provision", "--recipe", name, "--as-script"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("#!"), done.stderr
    with simulated(MACHINES[name]) as machine:
        known = facts.gather(machine, "auto")
    result = lint.lint(source.of("plan.sh", done.stdout.encode()), TargetMachine(lambda: known), others=False)

    assert said(result) == []
    assert Status.FAIL not in {remark.severity for remark in result.remarks}


@pytest.mark.slow
def test_own_files_by_the_command(tmp_path: Path) -> None:
    """envcheck train --write, then envcheck lint on each of its files: nothing fails, shellcheck included."""
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "envcheck"]
    made = [
        *argv,
        "train",
        "--recipe",
        "qwen-7b-npu-swift",
        "--method",
        "lora",
        "--write",
        str(tmp_path / "job"),
        "--yes",
    ]
    wrote = subprocess.run(made, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert wrote.returncode == 0, wrote.stderr
    for path in sorted((tmp_path / "job").glob("*")):
        if path.name == "command.json":
            continue
        linted = [*argv, "lint", str(path), "--json"]
        done = subprocess.run(linted, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        document = json.loads(done.stdout)

        assert [each for each in document["findings"] if each["severity"] == "FAIL"] == []
