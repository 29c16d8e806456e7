"""Verification on cards: the real paddle and launcher, with a device plugin that simulates cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import StepError
from envcheck.deep.interpreter import DeepResult
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from installers.targets.target import VenvTarget
from installers.verify import device_checks, environment_checks
from installers.verify.device_checks import find_wrong_products, verify_allreduce, verify_products
from installers.verify.frameworks import KITS
from tests.envcheck.deep.deep_parts import list_remaining_processes, make_faulty_plugin
from tests.tiers import thin_out

TINY = catalogue.find_recipe(catalogue.load_all(), "tiny-cpu")
KINDS = {"npu": "tiny-npu", "iluvatar_gpu": "tiny-iluvatar", "xpu": "tiny-xpu"}


@pytest.fixture(scope="module")
def environment(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment with its own state folder, because verifications write there and tests run in parallel."""
    folder = tmp_path_factory.mktemp("environment")
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / name).symlink_to(paddle_environment / name)
    return folder


def test_real_collective(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An all-reduce by paddle's launcher and gloo is correct, with variables of another job in the shell."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:6070,10.0.0.2:6070")
    target = VenvTarget(environment)

    assert (
        verify_allreduce(TINY, target, environment_checks.job_environment(TINY, target))
        == "all-reduce correct in 2 processes"
    )


@pytest.fixture(scope="module", params=thin_out(1, KINDS))
def recipe(request: pytest.FixtureRequest, environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe for four cards of a vendor with a test plugin, which the sourced script selects."""
    folder = tmp_path_factory.mktemp(request.param)
    root = make_faulty_plugin(environment, request.param, folder)
    (folder / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={root}\n")
    found = catalogue.find_recipe(catalogue.load_all(), KINDS[request.param])
    return replace(
        found,
        scripts=(str(folder / "set_env.sh"),),
        hardware=replace(found.hardware, cards=4),
        # paddle is built with XPU, so tiny-xpu names no backend; the plugin that stands in for it needs one
        environment={**found.environment, "FAKE_DEVICES": "4", "PADDLE_XCCL_BACKEND": request.param},
    )


def run_proofs(recipe: Recipe, environment: Path, *proofs: device_checks.Prove) -> list[str]:
    target = VenvTarget(environment)
    return [proof(recipe, target, environment_checks.job_environment(recipe, target)) for proof in proofs]


def test_every_card(recipe: Recipe, environment: Path) -> None:
    """Matmul and all-reduce on four cards are correct with the test plugin."""
    kind = KITS[0].device_names(recipe.device).type

    assert run_proofs(recipe, environment, verify_products, verify_allreduce) == [
        f"matmul correct on 4 cards of type {kind}",
        "all-reduce correct in 4 processes",
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    (
        ({"FAKE_SILENT": "1"}, r"4 processes returned wrong values: process 0: sums: expected"),
        ({"FAKE_FAULT": "crash:1"}, r"4 processes failed \(process exited with code \d+\)"),
    ),
    ids=("does nothing", "one rank dies"),
)
def test_an_all_reduce_that_fails(recipe: Recipe, environment: Path, change: dict[str, str], told: str) -> None:
    """An all-reduce that returns without summing is detected by its values; a rank that dies ends the others."""
    failing = replace(recipe, environment={**recipe.environment, **change})

    with pytest.raises(StepError, match=told):
        run_proofs(failing, environment, verify_allreduce)
    assert list_remaining_processes(environment) == []


@pytest.mark.parametrize(
    ("change", "told"),
    (
        ({"FAKE_DEVICES": "3"}, "needs 4 cards of type .*; 3 found"),
        ({"FAKE_DEVICES": "0"}, "no card of type"),
    ),
)
def test_too_few_cards(recipe: Recipe, environment: Path, change: dict[str, str], told: str) -> None:
    """Missing cards are reported by number, and the CPU is not used instead."""
    fewer = replace(recipe, environment={**recipe.environment, **change})

    with pytest.raises(StepError, match=told):
        run_proofs(fewer, environment, verify_products)


@pytest.mark.parametrize(
    ("fault", "told"),
    thin_out(
        2,
        (
            ("lie:1", r"wrong matmul results on card 1 \(relative error"),
            ("crash:1", r"matmul failed on card 1 \(process terminated by SIGSEGV\)"),
            ("hang:1", r"matmul failed on card 1 \(no response within 12 s\)"),
        ),
    ),
)
def test_one_that_fails(
    recipe: Recipe, environment: Path, monkeypatch: pytest.MonkeyPatch, fault: str, told: str
) -> None:
    """A card with a wrong or missing result is named."""
    monkeypatch.setenv("ENVCHECK_PROOF_SECONDS", "12" if fault == "hang:1" else "60")

    with pytest.raises(StepError, match=told):
        run_proofs(
            replace(recipe, environment={**recipe.environment, "FAKE_FAULT": fault}), environment, verify_products
        )


def test_a_plugin_that_does_not_load(recipe: Recipe, environment: Path, tmp_path: Path) -> None:
    """Without a plugin paddle itself continues on the CPU; the verification fails."""
    (tmp_path / "set_env.sh").write_text(f"export CUSTOM_DEVICE_ROOT={tmp_path}\n")

    with pytest.raises(StepError, match="did not load"):
        run_proofs(replace(recipe, scripts=(str(tmp_path / "set_env.sh"),)), environment, verify_products)


def test_a_script_that_is_missing(recipe: Recipe, environment: Path) -> None:
    """A missing set_env.sh of a vendor fails the verification, with its name."""
    with pytest.raises(StepError, match="no-such-set_env"):
        run_proofs(replace(recipe, scripts=("/no-such-set_env.sh",)), environment, verify_products)


def test_a_card_of_which_nothing_is_heard() -> None:
    """A card without a result, or with an error that is not a number, is not taken as correct."""
    right = {"worst": 0.001, "square": 0.001}
    answers = [DeepResult("product", (0,), right), DeepResult("product", (1,), {**right, "worst": float("nan")})]

    assert find_wrong_products(answers, 1) == ""
    assert find_wrong_products(answers, 3) == "1 (relative error nan), 2 (relative error nan)"


@pytest.mark.parametrize("name", [r.name for r in catalogue.load_all() if r.device != "cpu"])
def test_every_recipe_on_cards_has_both_proofs(name: str) -> None:
    """Recipes for cards have a matmul and an all-reduce check, also if the library comes with the image."""
    words = [words for words, _ in device_checks.list_proofs(catalogue.find_recipe(catalogue.load_all(), name))]

    assert len(words) == 2
    assert "every card" in words[0]
    assert "all-reduce" in words[1]


def test_own_commands_find_what_scripts_set(environment: Path, tmp_path: Path) -> None:
    """The recipe's own commands run after its scripts were sourced, like training."""
    (tmp_path / "set_env.sh").write_text("export SET_BY_SCRIPT=yes\n")
    recipe = replace(TINY, scripts=(str(tmp_path / "set_env.sh"),))
    asked = ("{python}", "-c", "import os; assert os.environ['SET_BY_SCRIPT'] == 'yes'")

    assert environment_checks.verify_command(recipe, VenvTarget(environment), asked).endswith("succeeded")
    with pytest.raises(StepError):
        environment_checks.verify_command(TINY, VenvTarget(environment), asked)
