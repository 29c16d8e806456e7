"""Messages of provision: sizes, choices, an interrupted prompt, cards that a method does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from envcheck.core.units import format_mib
from installers.recipes import catalogue
from tests.installers.provision_helpers import ROOT, write_recipe

RECIPE = """
name = "mine"
title = "A recipe that wants no memory by itself"
device = "nvidia"
framework = "test"
models = ["ERNIE-4.5-21B-A3B"]
source = "test"
python = ">=3.10"

[hardware]
product = "any"
source = "test"

[[jobs]]
method = "sft"
title = "all parameters"
source = "test"
launcher = ["true"]
arguments = ["--output_dir", "{output}"]

[[jobs]]
method = "infer"
title = "a talk"
source = "test"
launcher = ["true"]
"""


@pytest.mark.parametrize(
    ("count", "said"), ((0, "0 MiB"), (0.0001, "1 KiB"), (0.25, "256 KiB"), (0.6, "1 MiB"), (512, "512 MiB"))
)
def test_small_files_have_a_size(count: float, said: str) -> None:
    """Sizes below half a MiB are shown in KiB, and never as zero unless they are."""
    assert format_mib(count) == said


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    (
        ("--model", "qwen-7b", "--framework", "swift", "--device", "cpu"),
        ("--recipe", "qwen-7b-npu-swift", "--method", "rlhf"),
    ),
    ids=("model", "recipe"),
)
def test_advice_knows_what_provision_takes(options: tuple[str, ...], tmp_path: Path) -> None:
    """An error lists jobs by options of provision, each row once; every row can be used as it is."""
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "envcheck", "provision", "--dry-run", *options]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    rows = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("    ") and "--model" in line]

    assert done.returncode == 2
    assert rows and "--variant" not in done.stderr
    assert len(rows) == len({tuple(row) for row in rows})
    for row in rows:
        words = dict(zip(row[::2], row[1::2], strict=True))
        named = words["--model"], words["--method"], words["--device"], words["--framework"]
        found = catalogue.list_possible(catalogue.load_all(), *named)
        assert {recipe.name for recipe, _ in found} == {"qwen-7b-npu-swift"}


@pytest.mark.slow
def test_a_prompt_that_is_left(tmp_path: Path) -> None:
    """Ctrl-C at a prompt ends with a line of its own and exit code 130."""
    recipes = write_recipe(tmp_path / "recipes", "alpha")
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home")}
    argv = ["-m", "envcheck", "provision", "--recipes", str(recipes), "--recipe", "little"]
    child = pexpect.spawn(sys.executable, argv, cwd=str(ROOT), env=env, encoding="utf-8", timeout=60)
    child.expect_exact("Continue? [y/N]: ")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()

    assert "envcheck: interrupted" in (child.before or "").splitlines()
    assert child.exitstatus == 130
    assert not (tmp_path / "home" / "environments" / "little").exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", ("sft", "infer", None))
def test_the_planner_is_asked(method: str | None, tmp_path: Path) -> None:
    """A method that does not fit the cards according to the planner is a note in the plan, whichever was named; it
    does not block, since another method of the recipe can run."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.toml").write_text(RECIPE)
    words = ["--recipes", str(tmp_path / "recipes"), "--recipe", "mine", *(["--method", method] if method else [])]
    argv = [sys.executable, "-m", "envcheck", "simulate", "dev-4090x1", "--", sys.executable, "-m", "envcheck"]
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [*argv, "provision", *words, "--dry-run", "--json"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = json.loads(done.stdout)

    assert done.returncode == 0, done.stdout + done.stderr
    assert ["suitable for sft: planner: " in each for each in told["notes"]] == [True]
    assert told["obstacles"] == []
