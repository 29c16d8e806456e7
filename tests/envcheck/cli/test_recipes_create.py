"""`envcheck recipes create`: a recipe of a user's own job, for which every command gives the same answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from envcheck.core.errors import UsageError
from installers.recipes.loader import load_recipe
from tests.envcheck.scripts.test_own_job_reader import AXOLOTL, ERNIEKIT, LLAMAFACTORY, SCRIPT
from tests.simulated_machines import on_machine, run_on

__all__ = ("on_machine", "run_on")
Run = Callable[..., Result]
MACHINE = "h200x8"
TORCHRUN = (
    "torchrun --nproc_per_node 4 --master_port 29511 train.py --model_name_or_path Qwen/Qwen2.5-7B --stage dpo "
    "--finetuning_type lora --lora_rank 16 --per_device_train_batch_size 2 --cutoff_len 1024 --max_steps 20 "
    "--gradient_accumulation_steps 4 --disable_gradient_checkpointing true --output_dir saves"
)
JOBS = {
    "llamafactory": ("my.yaml", LLAMAFACTORY.replace("deepspeed: ds_z2.json\n", "deepspeed: z3.json\n")),
    "erniekit": ("my.yaml", ERNIEKIT),
    "axolotl": ("my.yaml", AXOLOTL),
    "script": ("run.sh", TORCHRUN),
    "command": ("--", TORCHRUN),
}


def name_job(folder: Path, name: str, text: str) -> tuple[str, ...]:
    if name == "--":
        return ("--", *shlex.split(text))
    (folder / name).write_text(text)
    return (name,)


def read_plan(result: Result) -> dict[str, Any]:
    said = json.loads(result.stdout)
    return {key: said[key] for key in ("verdict", "model", "framework", "layout", "need_bytes", "phases")}


@pytest.mark.parametrize("kind", JOBS)
def test_plan_gives_the_same_answer(run_on: Run, tmp_path: Path, kind: str) -> None:
    """The recipe has micro batch, length, recomputation and sharding of the job: its plan is the same."""
    words = name_job(tmp_path, *JOBS[kind])
    made = run_on(MACHINE, "recipes", "create", "-o", "own/mine.toml", *words)
    method = load_recipe(tmp_path / "own" / "mine.toml").jobs[0].method
    named = ("--model", "mine", "--method", method, "--recipes", "own")

    assert "--recipe mine --recipes own" in made.stdout
    job, recipe = run_on(MACHINE, "plan", "--json", *words), run_on(MACHINE, "plan", "--json", *named)
    by_name = run_on(MACHINE, "plan", "--json", "--recipe", "mine", "--recipes", "own")
    assert read_plan(recipe) == read_plan(job) == read_plan(by_name)


def test_flat_file_becomes_options(run_on: Run, tmp_path: Path) -> None:
    """The keys of a YAML become options, which --set changes; each run gets an output folder of its own."""
    (words,) = name_job(tmp_path, "my.yaml", LLAMAFACTORY)
    run_on(MACHINE, "recipes", "create", "-o", "own/mine.toml", words)
    said = run_on(MACHINE, "train", "--recipe", "mine", "--recipes", "own", "--set", "lora_rank=64", "--dry-run").stdout

    assert "lora_rank: 64" in said
    assert "output_dir:" in said and "saves/qwen" not in said


def test_launcher_values_become_placeholders(run_on: Run, tmp_path: Path) -> None:
    """The number of processes and the port are filled in for other machines."""
    words = name_job(tmp_path, "--", TORCHRUN)
    run_on(MACHINE, "recipes", "create", "-o", "own/mine.toml", *words)
    job = load_recipe(tmp_path / "own" / "mine.toml").jobs[0]

    assert job.launcher[1:] == ("--nproc_per_node", "{processes}", "--master_port", "{port}", "train.py")
    assert (job.port, job.processes, dict(job.parallel)) == (29511, 4, {"data": 4})


def test_doubts_are_comments(run_on: Run, tmp_path: Path) -> None:
    """Without -o the text is printed; what was assumed and what is unknown is in it."""
    text = run_on("atlas-800t-a2", "recipes", "create", *name_job(tmp_path, "run.sh", SCRIPT)).stdout

    assert "# recompute: full, assumed (default of LLaMA-Factory)" in text
    assert "# output: unknown" in text


@pytest.mark.parametrize(
    ("words", "message"),
    (
        ((), "no job specified"),
        (("none.yaml",), "none.yaml does not exist"),
        (("-o", "my.toml", "my.yaml"), "already exists"),
        (("hello.sh",), "no training was found in hello.sh"),
        (("--", "echo", "hello"), "no training was found in the command"),
    ),
)
def test_refused(run_on: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    """Without a job there is no recipe, and an existing file is not replaced."""
    name_job(tmp_path, "my.yaml", LLAMAFACTORY)
    (tmp_path / "my.toml").write_text("mine")
    (tmp_path / "hello.sh").write_text("echo hello\n")
    result = run_on(MACHINE, "recipes", "create", *words)

    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception.message)
    assert (tmp_path / "my.toml").read_text() == "mine"


SECRET = "sk-0123456789abcdefghijklmn"


@pytest.mark.parametrize(
    ("words", "name"),
    (
        (("--api_key", SECRET), "--api_key"),
        ((f"--hub_token={SECRET}",), "--hub_token"),
        (("--hub_token", "short"), "--hub_token"),
        (("--eos_token", "<end>", "--use_auth_token", "true", "--hub_token", "$HF_TOKEN"), ""),
    ),
)
def test_secrets_are_not_written(run_on: Run, tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    """A command with a secret makes no recipe: the file would show it; the option is named, not its value."""
    result = run_on(MACHINE, "recipes", "create", "-o", "mine.toml", "--", *shlex.split(TORCHRUN), *words)

    if not name:
        assert (result.exit_code, (tmp_path / "mine.toml").exists()) == (0, True), result.exception
        return
    assert isinstance(result.exception, UsageError)
    assert f"a secret in {name}," in str(result.exception.message) and SECRET not in str(result.exception.message)
    assert not (tmp_path / "mine.toml").exists()


def test_created_recipe_runs_in_the_same_environment(run_on: Run, tmp_path: Path) -> None:
    """No environment of envcheck's own is asked for, none is made, and the program of the job is looked for."""
    program = tmp_path / "bin" / "torchrun"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    words = [str(program), *shlex.split(TORCHRUN)[1:]]
    run_on(MACHINE, "recipes", "create", "-o", "own/mine.toml", "--", *words)
    named = ("--recipe", "mine", "--recipes", "own")

    def read_gates() -> dict[str, str]:
        document = json.loads(run_on(MACHINE, "train", *named, "--gates", "--json").stdout)
        return {gate["name"].removeprefix("gate."): gate["status"] for gate in document["gates"]}

    found = read_gates()
    refused = run_on(MACHINE, "provision", *named, "--yes")
    program.unlink()
    absent = read_gates()

    assert (found["environment"], found["data"], absent["data"]) == ("NOT_APPLICABLE", "OK", "FAIL")
    assert "runs in your own environment" in str(refused.exception)


@pytest.mark.parametrize("words", (("lf.yaml",), ("--recipe", "lf", "--recipes", "own")))
def test_missing_program_prevents_the_start(run_on: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A program that PATH does not have closes the same gate for the job and for its recipe, also in a dry run."""
    name_job(tmp_path, "lf.yaml", LLAMAFACTORY.replace("deepspeed: ds_z2.json\n", ""))
    run_on(MACHINE, "recipes", "create", "-o", "own/lf.toml", "lf.yaml")
    document = json.loads(run_on(MACHINE, "train", *words, "--gates", "--json").stdout)
    gates = {gate["name"]: gate for gate in document["gates"]}
    previewed = run_on(MACHINE, "train", *words, "--dry-run")

    assert gates["gate.command"]["status"] == "FAIL"
    assert "llamafactory-cli is not in PATH" in gates["gate.command"]["seen"]
    assert "llamafactory-cli is not in PATH" in previewed.stdout
    assert gates["gate.lint"]["status"] == ("OK" if words == ("lf.yaml",) else "NOT_APPLICABLE")


def test_impossible_value_prevents_the_start(run_on: Run, tmp_path: Path) -> None:
    """What plan refuses closes gate.lint of train."""
    (words,) = name_job(tmp_path, "my.yaml", LLAMAFACTORY.replace("deepspeed: ds_z2.json\n", "lora_rank: -8\n"))
    document = json.loads(run_on(MACHINE, "train", words, "--gates", "--json").stdout)
    found = next(gate for gate in document["gates"] if gate["name"] == "gate.lint")
    refused = run_on(MACHINE, "plan", words)

    assert found["status"] == "FAIL" and any("lora_rank -8" in line for line in found["evidence"])
    assert "lora_rank -8" in f"{refused.stdout}{refused.exception}"


@pytest.mark.parametrize("words", (("doctor",), ("plan",), ("train", "--gates"), ("train", "--dry-run")))
def test_texts_about_own_jobs(run_on: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    """What is printed about a job of the user's own does not call it a recipe."""
    text = LLAMAFACTORY.replace("deepspeed: ds_z2.json\n", "")
    (tmp_path / "my.yaml").write_text(f"{text}max_steps: 4\nsave_steps: 500\n")
    printed = run_on(MACHINE, *words, "my.yaml").stdout

    assert printed
    lines = [line for line in printed.splitlines() if str(tmp_path) not in line]
    assert [line for line in lines if "recipe" in line or "--set" in line] == []


def test_the_next_command_is_quoted(run_on: Run, tmp_path: Path) -> None:
    """The command that is printed starts the job in a shell, whatever the folder is called."""
    words = name_job(tmp_path, *JOBS["script"])
    made = run_on(MACHINE, "recipes", "create", "-o", "d e/x y.toml", *words)
    command = shlex.split(made.stdout.partition(": ")[2])

    assert command == ["envcheck", "train", "--recipe", "x-y", "--recipes", "d e"]
    assert run_on(MACHINE, "plan", *command[2:]).exception is None


@pytest.mark.parametrize(
    ("file", "message"),
    (
        ("rec1", "rec1: the name of a recipe file ends in .toml"),
        ("mine/x'y.toml", "mine/x'y.toml: the recipe would have the name of mine/x-y.toml: x-y"),
    ),
)
def test_files_that_no_command_would_find(run_on: Run, tmp_path: Path, file: str, message: str) -> None:
    """A file without the suffix of recipes, or with another one of its name in the folder, is not written."""
    words = name_job(tmp_path, *JOBS["script"])
    run_on(MACHINE, "recipes", "create", "-o", "mine/x-y.toml", *words)
    caught = run_on(MACHINE, "recipes", "create", "-o", file, *words).exception

    assert isinstance(caught, UsageError)
    assert caught.message == message
    assert not (tmp_path / file).exists()
