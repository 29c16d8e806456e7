"""The next command that doctor suggests on a machine without problems works as printed."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.collect import facts
from envcheck.collect.host import proofs
from envcheck.core.facts import Facts, SystemFacts
from envcheck.job.next_command import UNFIT, suggest_command
from envcheck.job.request import JobRequest
from envcheck.simulate import machine_file, simulated_run
from envcheck.simulate.build import write_simulation
from installers.recipes import catalogue
from installers.recipes.fingerprint import compute_fingerprint
from tests.envcheck.checks.doctor_helpers import simulate_machine

RECIPES = catalogue.load_all()
LAPTOP = Facts(host=SystemFacts(architecture="x86_64", memory_available_bytes=64 << 30))


def gather_facts(machine: str) -> Facts:
    with simulate_machine(machine) as here:
        return facts.gather_facts(here)


def test_a_recipe_without_an_image_is_provisioned_by_train() -> None:
    """train installs it after confirmation; without a terminal --yes is added."""
    asked, unasked = (suggest_command(JobRequest(), None, RECIPES, LAPTOP, ask).command for ask in (True, False))

    assert asked == "envcheck train --recipe tiny-cpu --method lora --provision"
    assert unasked == f"{asked} --yes"


def test_a_verified_recipe_is_trained() -> None:
    """A recipe that was verified on this machine needs no installation; a changed recipe does."""
    recipe = catalogue.find_recipe(RECIPES, "tiny-cpu")
    known = replace(LAPTOP, proofs={"tiny-cpu": compute_fingerprint(recipe)})

    current, stale = (
        suggest_command(JobRequest(), None, some, known).command
        for some in (RECIPES, (replace(recipe, python=">=3.11"),))
    )

    assert current == "envcheck train --recipe tiny-cpu --method lora"
    assert stale.endswith("--provision")


@pytest.mark.parametrize(("machine", "recipe"), [("h200x8", "ernie-21b-nvidia"), ("bi-v150x8", "ernie-21b-iluvatar")])
def test_weights_that_train_needs_are_fetched_first(machine: str, recipe: str) -> None:
    """No upstream downloads them: provision gets --fetch-weights; a verified recipe is trained."""
    known = gather_facts(machine)
    proved = replace(known, proofs={recipe: compute_fingerprint(catalogue.find_recipe(RECIPES, recipe))})

    first, then = (suggest_command(JobRequest(), None, RECIPES, on, False).command for on in (known, proved))

    assert first == f"envcheck provision --recipe {recipe} --method lora --fetch-weights --yes"
    assert then == f"envcheck train --recipe {recipe} --method lora"


def test_an_outdated_driver_comes_first() -> None:
    """If every recipe needs a newer driver, the suggestion names the required version."""
    advised = suggest_command(JobRequest(), None, RECIPES, gather_facts("atlas-800t-a2"))

    assert "recipe qwen-7b-npu-swift requires 25.2.0 or newer" in advised.words
    assert advised.command == "envcheck recipes show qwen-7b-npu-swift"


def test_no_recipe_fits() -> None:
    """Without a fitting recipe the suggestion is to list all recipes."""
    npu_only = tuple(recipe for recipe in RECIPES if recipe.device == "npu")

    assert suggest_command(JobRequest(), None, npu_only, LAPTOP) == UNFIT


@pytest.mark.parametrize("machine", machine_file.list_machines())
def test_each_advice_is_a_command_of_ours(machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every simulated machine the suggested command parses, and its recipe suits the machine."""
    write_simulation(machine_file.load_machine(machine), tmp_path, 1e9)
    for variable, text in simulated_run.make_environment(tmp_path).items():
        monkeypatch.setenv(variable, text)
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))

    text = CliRunner().invoke(main.main, ["doctor"]).stdout

    advised = re.findall(r"^(?:Next:)? +(envcheck (?:train|provision) .*)$", text, re.M)
    for line in advised:
        _, verb, *words = shlex.split(line)
        command = main.main.get_command(click.Context(main.main), verb)
        assert command is not None
        command.make_context(verb, list(words))
        shown = json.loads(CliRunner().invoke(main.main, ["recipes", "show", words[1], "--json"]).stdout)
        assert not {"device", "cards", "architecture", "memory"} & set(shown["job"]["blocked_by"])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, "8c1f"),
        ({"doing": "packages"}, ""),
        ({"schema": 1, "recipe": "mine", "digest": "8c1f", "proven": {"numpy": "1.26.4"}}, "8c1f"),
        ({"schema": 7}, ""),
        ({"place": "/elsewhere"}, ""),
        ({"proofs": {}}, ""),
        ({"proofs": {"mine": {"digest": "8c1f", "packages": {"numpy": "2.0"}}}}, ""),
        ({"proofs": "x"}, ""),
    ],
)
def test_proofs_are_read_from_state_files(change: dict[str, Any], found: str, tmp_path: Path) -> None:
    """A verification counts only if nothing was started, moved or changed since."""
    folder = tmp_path / "mine"
    (folder / ".envcheck").mkdir(parents=True)
    state = {"schema": 2, "doing": "", "proofs": {"mine": {"digest": "8c1f", "packages": {"numpy": "1.26.4"}}}}
    (folder / ".envcheck" / "state.json").write_text(json.dumps({**state, **change}))

    assert proofs.read_proof(folder, {"numpy": "1.26.4"}) == found
    assert proofs.read_proof(tmp_path / "other", None) == ""
