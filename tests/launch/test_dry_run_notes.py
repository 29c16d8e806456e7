"""`envcheck train --dry-run`: one line for each difference from the published document, and for each assumption."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from installers.recipes import catalogue
from installers.recipes.published_differences import list_differences
from tests.simulated_machines import on_machine, run_on

__all__ = ("on_machine", "run_on")
Run = Callable[..., Result]
MACHINE = "atlas-800t-a2"
LINES = (
    (
        ("--recipe", "qwen-7b-npu-llamafactory", "--method", "lora"),
        ("--bf16 true: published fp16: true; gradient norms", "--output_dir "),
    ),
    (
        ("--recipe", "qwen-7b-npu-swift", "--method", "lora"),
        ("--tuner_type lora: published --sft_type lora; ", "recompute: full, as in most"),
    ),
    (
        ("--recipe", "ernie-21b-hetero", "--node-role", "iluvatar"),
        ("--tensor_parallel_degree 4: published 8, ", "--pipeline_parallel_degree 4: published 2; "),
    ),
)


@pytest.mark.parametrize(("words", "lines"), LINES, ids=lambda value: value[1])
def test_differences(run_on: Run, words: tuple[str, ...], lines: tuple[str, ...]) -> None:
    """Each value that is not the document's is one line, with the document's value and the reason."""
    shown = run_on(MACHINE, "train", *words, "--dry-run").stdout.splitlines()

    for line in lines:
        assert [each for each in shown if each.startswith(f"  {line}")], line


def test_document(run_on: Run) -> None:
    """The JSON document has the same lists."""
    words = ("train", "--recipe", "qwen-7b-npu-llamafactory", "--method", "lora", "--dry-run", "--json")
    said = json.loads(run_on(MACHINE, *words).stdout)

    assert {"--bf16 true", "runs = /app/output"} <= {each["value"] for each in said["differences"]}
    assert said["assumed"]
    assert said["option_changes"] == []


def test_changed_option(run_on: Run) -> None:
    """The line has the job's value, not the recipe's, if the user changed it."""
    words = ("--recipe", "ernie-21b-hetero", "--node-role", "iluvatar", "--set", "save_steps=2")
    shown = run_on(MACHINE, "train", *words, "--dry-run").stdout

    assert "  --save_steps 2: published 500; " in shown


def test_renamed_options(run_on: Run) -> None:
    """Options that the installed version calls otherwise, or no longer has, are one line each."""
    words = ("--recipe", "ernie-21b-hetero", "--node-role", "iluvatar", "--installed", "paddleformers=1.2.0")
    shown = run_on(MACHINE, "train", *words, "--dry-run").stdout

    assert "  --tensor_model_parallel_size was --tensor_parallel_degree\n" in shown
    assert "  --fuse_rope is left out: " in shown


def test_every_difference_has_its_reason() -> None:
    """Each difference of each published job has a value, the document's value, and a reason."""
    recipes = catalogue.load_all(None)
    found = [each for recipe in recipes for job in recipe.jobs for each in list_differences(recipe, job)]

    assert len(found) > 100
    assert [each for each in found if not (each.value and each.published and each.reason)] == []
