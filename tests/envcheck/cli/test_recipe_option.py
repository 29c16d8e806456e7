"""doctor and plan take --recipe NAME, as train, provision and bundle do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from envcheck.core.errors import UndeterminedError, UsageError
from tests.simulated_machines import on_machine, run_on

__all__ = ("on_machine", "run_on")
Run = Callable[..., Result]
MACHINE = "h200x8"
IMAGE = "ernie-0.3b-nvidia-container"  # an alternative, which --model 0.3b does not select


@pytest.mark.parametrize("verb", ("doctor", "plan"))
def test_an_alternative_recipe_is_selected_by_name(run_on: Run, verb: str) -> None:
    """The job is the named recipe's, with the facts of its image; the model alone selects the other recipe."""
    named = json.loads(run_on(MACHINE, verb, "--recipe", IMAGE, "--method", "lora", "--json").stdout)
    usual = json.loads(run_on(MACHINE, verb, "--model", "ernie-0.3b", "--method", "lora", "--json").stdout)

    assert (named["job"]["recipe"], usual["job"]["recipe"]) == (IMAGE, "ernie-0.3b-nvidia")
    assert named["job"]["image"] and not usual["job"]["image"]


def test_a_recipe_is_planned_on_described_cards(run_on: Run) -> None:
    """The recipe's name selects its model on other hardware, too."""
    words = ("--method", "sft", "--device", "h200", "--cards", "8", "--json")
    made: list[dict[str, Any]] = [
        json.loads(run_on(MACHINE, "plan", *named, *words).stdout)
        for named in (("--recipe", IMAGE), ("--model", "ernie-0.3b"))
    ]

    assert [said["model"] for said in made] == ["ernie-4.5-0.3b"] * 2


@pytest.mark.parametrize("verb", ("doctor", "plan"))
@pytest.mark.parametrize(
    ("words", "message"),
    (
        (("--recipe", "nothing"), "unknown recipe 'nothing'"),
        (("--recipe", IMAGE), "3 jobs fit this request"),
        (("--recipe", IMAGE, "--model", "21b"), f"--recipe {IMAGE} conflicts with --model 21b"),
    ),
)
def test_refused(run_on: Run, verb: str, words: tuple[str, ...], message: str) -> None:
    """An unknown recipe, one with several jobs, and another model are wrong usage."""
    caught = run_on(MACHINE, verb, *words).exception

    assert isinstance(caught, UsageError)
    assert caught.message == message


def test_a_model_that_the_planner_lacks(run_on: Run) -> None:
    """The message is about the recipe that was named; the plan is undetermined."""
    caught = run_on(MACHINE, "plan", "--recipe", "tiny-cpu").exception

    assert isinstance(caught, UndeterminedError)
    assert caught.message == "the planner does not support tiny, the model of recipe tiny-cpu"


def test_plan_takes_the_device_of_the_recipe(run_on: Run) -> None:
    """On a machine without its devices, the job is planned for the recipe's own host."""
    words = ("plan", "--recipe", "ernie-21b-xpu", "--method", "lora", "--json")
    named, both = (run_on("bi-v150x8", *words, *device) for device in ((), ("--device", "xpu")))

    assert named.exit_code == 0
    assert json.loads(named.stdout)["job"] == json.loads(both.stdout)["job"]
