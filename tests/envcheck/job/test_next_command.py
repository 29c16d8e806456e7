"""What doctor advises where nothing is amiss: a command that works as it stands on that machine."""

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
from envcheck.core.facts import Facts, Host
from envcheck.job.next_command import UNFIT, suggest_command
from envcheck.job.request import JobRequest
from envcheck.simulate import machine_file, session
from envcheck.simulate.build import build
from installers.recipes import catalogue
from installers.recipes.recipe_digest import digest
from tests.envcheck.checks.doctor_helpers import simulated

RECIPES = catalogue.load_all()
LAPTOP = Facts(host=Host(architecture="x86_64", memory_available_bytes=64 << 30))


def seen(machine: str) -> Facts:
    with simulated(machine) as here:
        return facts.gather(here)


def test_a_recipe_without_an_image_is_provisioned_by_train() -> None:
    """train itself installs it, and asks; where nobody is there to be asked it is told so."""
    asked, unasked = (suggest_command(JobRequest(), None, RECIPES, LAPTOP, ask).command for ask in (True, False))

    assert asked == "envcheck train --recipe tiny-cpu --method lora --provision"
    assert unasked == f"{asked} --yes"


def test_what_is_proved_is_trained() -> None:
    """Once the recipe that is meant now was proved here nothing is left to install."""
    recipe = catalogue.by_name(RECIPES, "tiny-cpu")
    known = replace(LAPTOP, proofs={"tiny-cpu": digest(recipe)})

    current, stale = (
        suggest_command(JobRequest(), None, some, known).command
        for some in (RECIPES, (replace(recipe, python=">=3.11"),))
    )

    assert current == "envcheck train --recipe tiny-cpu --method lora"
    assert stale.endswith("--provision")


@pytest.mark.parametrize(("machine", "recipe"), [("h200x8", "ernie-21b-nvidia"), ("bi-v150x8", "ernie-21b-iluvatar")])
def test_weights_that_train_needs_are_fetched_first(machine: str, recipe: str) -> None:
    """No upstream fetches them: provision is told to, in a container as without one; what is proved is trained."""
    known = seen(machine)
    proved = replace(known, proofs={recipe: digest(catalogue.by_name(RECIPES, recipe))})

    first, then = (suggest_command(JobRequest(), None, RECIPES, on, False).command for on in (known, proved))

    assert first == f"envcheck provision --recipe {recipe} --method lora --fetch-weights --yes"
    assert then == f"envcheck train --recipe {recipe} --method lora"


def test_a_driver_that_is_too_old_comes_before_what_needs_a_newer() -> None:
    """Where no recipe of a whole model runs with it, nothing is installed for one: it is said which driver it takes."""
    advised = suggest_command(JobRequest(), None, RECIPES, seen("atlas-800t-a2"))

    assert "recipe qwen-7b-npu-swift requires 25.2.0 or newer" in advised.words
    assert advised.command == "envcheck recipes show qwen-7b-npu-swift"


def test_no_recipe_fits() -> None:
    """Then there is no training to start."""
    npu_only = tuple(recipe for recipe in RECIPES if recipe.device == "npu")

    assert suggest_command(JobRequest(), None, npu_only, LAPTOP) == UNFIT


@pytest.mark.parametrize("machine", machine_file.names())
def test_each_advice_is_a_command_of_ours(machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every simulated machine that is well: its options are known, and its recipe is one that suits the machine."""
    build(machine_file.load(machine), tmp_path, 1e9)
    for variable, text in session.environment(tmp_path).items():
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
    """A proof counts where nothing was begun, moved or changed since."""
    folder = tmp_path / "mine"
    (folder / ".envcheck").mkdir(parents=True)
    state = {"schema": 2, "doing": "", "proofs": {"mine": {"digest": "8c1f", "packages": {"numpy": "1.26.4"}}}}
    (folder / ".envcheck" / "state.json").write_text(json.dumps({**state, **change}))

    assert proofs.of_folder(folder, {"numpy": "1.26.4"}) == found
    assert proofs.of_folder(tmp_path / "other", None) == ""
