"""The proof on cards: through the real paddle, its real launcher, and a device plugin without a card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import StepError
from envcheck.deep.interpreter import Said
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from installers.targets.target import VenvTarget
from installers.verify import verify_cards, verify_environment
from installers.verify.frameworks import KITS
from installers.verify.verify_cards import cards, collective, wrong_products
from tests.envcheck.deep.deep_parts import faulty, left
from tests.tiers import thin_out

TINY = catalogue.by_name(catalogue.load_all(), "tiny-cpu")
KINDS = {"npu": "tiny-npu", "iluvatar_gpu": "tiny-iluvatar"}


@pytest.fixture(scope="module")
def environment(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment with notes of its own: a proof writes there, and other tests prove side by side."""
    folder = tmp_path_factory.mktemp("environment")
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / name).symlink_to(paddle_environment / name)
    return folder


def test_real_collective(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """paddle's own launcher and gloo add up to the right values, with another job's leftovers in the shell."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:6070,10.0.0.2:6070")
    target = VenvTarget(environment)

    assert (
        collective(TINY, target, verify_environment.surroundings(TINY, target))
        == "two processes added up to the right values"
    )


@pytest.fixture(scope="module", params=thin_out(1, KINDS))
def recipe(request: pytest.FixtureRequest, environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe for four cards of a vendor whose plugin is ours; the script that it sources leads to it."""
    folder = tmp_path_factory.mktemp(request.param)
    root = faulty(environment, request.param, folder)
    (folder / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={root}\n")
    found = catalogue.by_name(catalogue.load_all(), KINDS[request.param])
    return replace(
        found,
        scripts=(str(folder / "set_env.sh"),),
        hardware=replace(found.hardware, cards=4),
        environment={**found.environment, "FAKE_DEVICES": "4"},
    )


def tried(recipe: Recipe, environment: Path, *proofs: verify_cards.Prove) -> list[str]:
    target = VenvTarget(environment)
    return [proof(recipe, target, verify_environment.surroundings(recipe, target)) for proof in proofs]


def test_every_card(recipe: Recipe, environment: Path) -> None:
    """Four cards multiply and add up together, by the plugin that was just made."""
    kind = KITS[0].names_of(recipe.device).type

    assert tried(recipe, environment, cards, collective) == [
        f"4 cards of type {kind} multiplied rightly",
        "4 processes added up to the right values",
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    (
        ({"FAKE_SILENT": "1"}, r"4 processes gave wrong values: process 0 says sums"),
        ({"FAKE_FAULT": "crash:1"}, r"4 processes failed \(the process ended with status \d+\)"),
    ),
    ids=("does nothing", "one rank dies"),
)
def test_an_all_reduce_that_fails(recipe: Recipe, environment: Path, change: dict[str, str], told: str) -> None:
    """Where the plugin's all-reduce returns without adding up, the values tell; a rank that dies ends the others."""
    failing = replace(recipe, environment={**recipe.environment, **change})

    with pytest.raises(StepError, match=told):
        tried(failing, environment, collective)
    assert left(environment) == []


@pytest.mark.parametrize(
    ("change", "told"),
    (
        ({"FAKE_DEVICES": "3"}, "3 cards of type .* are there, 4 are wanted"),
        ({"FAKE_DEVICES": "0"}, "no card of type"),
    ),
)
def test_too_few_cards(recipe: Recipe, environment: Path, change: dict[str, str], told: str) -> None:
    """Cards that are missing are told by their number, and none at all is not taken for the processor."""
    fewer = replace(recipe, environment={**recipe.environment, **change})

    with pytest.raises(StepError, match=told):
        tried(fewer, environment, cards)


@pytest.mark.parametrize(
    ("fault", "told"),
    thin_out(
        2,
        (
            ("lie:1", "cards multiply wrongly: 1 by"),
            ("crash:1", r"a product failed on card 1 \(the process was ended by SIGSEGV\)"),
            ("hang:1", r"a product failed on card 1 \(no answer in 12 s\)"),
        ),
    ),
)
def test_one_that_fails(
    recipe: Recipe, environment: Path, monkeypatch: pytest.MonkeyPatch, fault: str, told: str
) -> None:
    """A card whose product is wrong, or never comes, is named."""
    monkeypatch.setenv("ENVCHECK_PROOF_SECONDS", "12" if fault == "hang:1" else "60")

    with pytest.raises(StepError, match=told):
        tried(replace(recipe, environment={**recipe.environment, "FAKE_FAULT": fault}), environment, cards)


def test_a_plugin_that_does_not_load(recipe: Recipe, environment: Path, tmp_path: Path) -> None:
    """A plugin folder without a plugin: paddle itself goes on with the processor, the proof does not."""
    (tmp_path / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={tmp_path}\n")

    with pytest.raises(StepError, match="did not load"):
        tried(replace(recipe, scripts=(str(tmp_path / "set_env.sh"),)), environment, cards)


def test_a_script_that_is_missing(recipe: Recipe, environment: Path) -> None:
    """A vendor's set_env.sh that is not there fails the proof, by its name."""
    with pytest.raises(StepError, match="no-such-set_env"):
        tried(replace(recipe, scripts=("/no-such-set_env.sh",)), environment, cards)


def test_a_card_of_which_nothing_is_heard() -> None:
    """A card without an answer is not taken for a right one, nor is one whose error is no number."""
    right = {"worst": 0.001, "square": 0.001}
    answers = [Said("product", (0,), right), Said("product", (1,), {**right, "worst": float("nan")})]

    assert wrong_products(answers, 1) == ""
    assert wrong_products(answers, 3) == "1 by nan, 2 by nan"


@pytest.mark.parametrize("name", [r.name for r in catalogue.load_all() if r.device != "cpu"])
def test_every_recipe_on_cards_has_both_proofs(name: str) -> None:
    """Products on each card and an all-reduce over all of them, also where the library comes with the image."""
    words = [words for words, _ in verify_cards.proofs(catalogue.by_name(catalogue.load_all(), name))]

    assert len(words) == 2
    assert "every card" in words[0]
    assert "adding up" in words[1]


def test_own_commands_find_what_scripts_set(environment: Path, tmp_path: Path) -> None:
    """The recipe's own commands run after its scripts were sourced, as a training does."""
    (tmp_path / "set_env.sh").write_text("export SET_BY_SCRIPT=yes\n")
    recipe = replace(TINY, scripts=(str(tmp_path / "set_env.sh"),))
    asked = ("{python}", "-c", "import os; assert os.environ['SET_BY_SCRIPT'] == 'yes'")

    assert verify_environment.verify(recipe, VenvTarget(environment), asked).endswith("ended well")
    with pytest.raises(StepError):
        verify_environment.verify(TINY, VenvTarget(environment), asked)
