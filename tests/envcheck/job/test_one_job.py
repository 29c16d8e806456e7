"""All commands resolve the same job, on every simulated machine and for every recipe of its cards."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Context
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.simulate import machine_file
from installers.recipes import catalogue
from installers.recipes.catalogue import TALKS, job_device
from installers.recipes.recipe import RecipeJob
from tests.tiers import thin_out

RECIPES = catalogue.load_all()
QUICK = {
    "atlas-800t-a2-ernie-300b-npu-lora",
    "bi-v150x8-ernie-21b-iluvatar-lora",
    "cpu-tiny-cpu-lora",
    "h200x8-ernie-21b-hetero-lora-nvidia",
    "atlas-800t-a2-qwen-7b-npu-swift-lora-zero3",
}


def thin_cases(keep: int) -> list[Any]:
    """Return all cases: a few in the fast tier, `keep` others in the gate, evenly spread over machines and recipes."""
    cases = list(make_cases())
    return [
        *(case for case in cases if case.id in QUICK),
        *thin_out(keep, (case for case in cases if case.id not in QUICK)),
    ]


def make_cases() -> Iterator[Any]:
    """Yield machine, recipe and options of each training job for the machine's cards."""
    for name in machine_file.list_machines():
        vendor = machine_file.load_machine(name).vendor
        for recipe in RECIPES:
            for job in recipe.jobs:
                if job.method not in TALKS and job_device((recipe, job)) == vendor:
                    case = "-".join(filter(None, (name, recipe.name, job.method, job.role, job.variant)))
                    yield pytest.param(
                        name, recipe.name, make_options(job), id=case, marks=() if case in QUICK else pytest.mark.slow
                    )


def make_options(job: RecipeJob) -> tuple[str, ...]:
    """Return the options that select the job in its recipe."""
    options = {"--method": job.method, "--variant": job.variant, "--node-role": job.role}
    return tuple(word for option, value in options.items() if value for word in (option, value))


def read_document(*words: str) -> dict[str, Any]:
    """Return what the command prints with --json."""
    done = CliRunner().invoke(main.main, [*words, "--json"])
    assert done.exception is None or isinstance(done.exception, (SystemExit, EnvcheckError)), done.output
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else dict(done.exception.document)
    return found


@pytest.mark.parametrize(("machine", "recipe", "options"), thin_cases(24))
def test_all_commands_mean_the_same_job(machine: str, recipe: str, options: tuple[str, ...], on_machine: Any) -> None:
    """doctor, plan, provision, train and recipes show print the same job."""
    on_machine(machine)

    jobs = {
        "train": read_document("train", "--recipe", recipe, *options, "--dry-run"),
        "provision": read_document("provision", "--recipe", recipe, *options, "--dry-run"),
        "doctor": read_document("doctor", "--model", recipe, *options),
        "plan": read_document("plan", "--model", recipe, *options),
        "recipes": read_document("recipes", "show", recipe, *options),
    }

    assert {name: found["job"] for name, found in jobs.items()} == dict.fromkeys(jobs, jobs["train"]["job"])
    assert jobs["train"]["job"]["recipe"] == recipe
    assert not (jobs["train"]["job"]["container"] or {"privileged": False})["privileged"]


@pytest.mark.parametrize(("machine", "recipe", "options"), thin_cases(12))
def test_train_shows_the_container_of_the_job(
    machine: str, recipe: str, options: tuple[str, ...], on_machine: Any
) -> None:
    """The docker command of train's dry run has the image and devices of the job and is not privileged."""
    on_machine(machine)

    shown = read_document("train", "--recipe", recipe, *options, "--dry-run")

    job, line = shown["job"], " ".join(shown["container"])
    assert bool(line) == (job["image"] is not None)
    assert "--privileged" not in line
    assert job["image"] is None or job["image"] in line
    assert all(device in line for device in (job["container"] or {"devices": []})["devices"])


def test_all_commands_take_the_options_that_name_a_job() -> None:
    """All commands accept the same options to select a job."""
    naming = {"--method", "--variant", "--node-role", "--recipes", "--device"}
    group = importlib.import_module("envcheck.cli.commands.recipes").recipes
    commands = [main.main.get_command(Context(main.main), name) for name in ("doctor", "plan", "provision", "train")]

    for command in (*commands, group.commands["show"]):
        assert naming <= {option for param in command.params for option in param.opts}


def test_all_commands_read_recipes_of_ones_own(on_machine: Any, tmp_path: Path) -> None:
    """A recipe of --recipes gives the same job in all commands."""
    on_machine("cpu")
    ours = (catalogue.OURS / "tiny-cpu.toml").read_text(encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.toml").write_text(ours.replace('"tiny-cpu"', '"mine"'), encoding="utf-8")
    words = ("--method", "lora", "--recipes", str(tmp_path / "own"))

    jobs = [
        read_document("train", "--recipe", "mine", *words, "--dry-run"),
        read_document("provision", "--recipe", "mine", *words, "--dry-run"),
        read_document("doctor", "--model", "mine", *words),
        read_document("plan", "--model", "mine", *words),
        read_document("recipes", "show", "mine", *words),
    ]

    assert jobs[0]["job"]["recipe"] == "mine"
    assert [found["job"] for found in jobs] == [jobs[0]["job"]] * len(jobs)


@pytest.mark.parametrize("words", (("--variant", "zero9"), ("--node-role", "leader")))
@pytest.mark.parametrize("command", (("doctor",), ("plan",), ("provision", "--dry-run"), ("train", "--dry-run")))
def test_no_command_ignores_a_variant_or_a_role(
    command: tuple[str, ...], words: tuple[str, str], on_machine: Any
) -> None:
    """An unknown variant or role is rejected, and the message names the option."""
    on_machine("cpu")

    done = CliRunner().invoke(main.main, [*command, "--model", "qwen-7b", "--method", "lora", *words])

    assert isinstance(done.exception, UsageError)
    assert " ".join(words) in done.exception.message
