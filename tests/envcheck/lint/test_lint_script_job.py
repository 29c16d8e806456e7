"""A script that envcheck wrote is known again: its recipe's job, resolved as every command resolves it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from envcheck.cli import main, schemas
from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.job.command import render_job
from envcheck.job.command_values import fill_values
from envcheck.job.definition import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.shell_script import render_script
from envcheck.lint import linter
from envcheck.lint.linter import LintResult
from envcheck.scripts import source_file
from installers.recipes import catalogue
from installers.recipes.docker_cli import HERE

RECIPES = catalogue.load_all(None)
TRAININGS = [(r, j) for r in RECIPES for j in r.jobs if j.method not in catalogue.TALKS]
FOUR = JobRequest(recipe="qwen-7b-npu8-llamafactory", method="lora", variant="zero3")


def resolve_job(request: JobRequest) -> Job:
    return resolve(request, RECIPES, Facts())


def write_script(request: JobRequest) -> str:
    job = resolve(request, RECIPES, Facts(), folder=HERE)
    return render_script(render_job(job, fill_values(request, job.recipe, None)))


def lint_text(text: str) -> LintResult:
    return linter.lint_source(source_file.make_source("run.sh", text.encode()), TargetMachine(Facts), others=False)


@pytest.mark.parametrize(
    ("recipe", "method"), TRAININGS, ids=["-".join((r.name, j.method, j.variant, j.role)) for r, j in TRAININGS]
)
def test_each_written_script_is_known(recipe: catalogue.Recipe, method: catalogue.RecipeJob) -> None:
    """By its head, and nothing about its recipe is remarked on."""
    request = JobRequest(
        recipe=recipe.name, method=method.method, variant=method.variant or None, node_role=method.role or None
    )
    found = lint_text(write_script(request))

    assert found.job is not None
    assert found.job.as_json() == resolve_job(request).as_json()
    assert [remark for remark in found.remarks if remark.rule == "training.recipe"] == []


def test_other_numbers_of_cards_that_the_recipe_can_have() -> None:
    """The job is that of the script's own cards; what no recipe would start is remarked on."""
    eight = lint_text(write_script(replace(FOUR, cards=8)))
    head = "#!/usr/bin/env bash\n# ernie-300b-npu, lora: LoRA\n# Written by envcheck train --dry-run --as-script.\n"
    odd = lint_text(f"{head}python -m paddle.distributed.launch --nproc_per_node 12 train.py\n")

    assert eight.job and eight.job.as_json()["cards"] == 8
    assert [remark.rule for remark in eight.remarks if remark.rule == "training.recipe"] == []
    assert odd.job and odd.job.as_json()["cards"] == 16
    assert [remark.seen for remark in odd.remarks if remark.rule == "training.recipe"] == [
        "the script starts 12 processes on each node, but its recipe starts 16"
    ]


@pytest.mark.parametrize(
    "text",
    (
        "",
        "echo a\n",
        "#!/bin/sh\n# nobody, lora: a title\n# Written by envcheck train --dry-run --as-script.\necho\n",
        "#!/bin/sh\n# tiny-cpu, lora: a title\n# Written by somebody.\necho\n",
    ),
)
def test_scripts_of_nobodys_recipe(text: str) -> None:
    """Without a head of envcheck's, or of a recipe that there is, no job is named."""
    assert lint_text(text).job is None


def test_the_document_and_the_last_line(tmp_path: Path) -> None:
    """--json has the job, null for other scripts; the text names the recipe."""
    (tmp_path / "run.sh").write_text(write_script(FOUR))
    (tmp_path / "own.sh").write_text("echo a\n")

    def run(*words: str) -> str:
        return CliRunner().invoke(main.main, ("lint", "--no-shellcheck", *words), standalone_mode=False).stdout

    said, other = (json.loads(run(str(tmp_path / name), "--json")) for name in ("run.sh", "own.sh"))
    jsonschema.validate(said, schemas.build_schema("lint"))
    assert (said["job"]["recipe"], other["job"]) == ("qwen-7b-npu8-llamafactory", None)
    assert "generated from lora zero3 of recipe qwen-7b-npu8-llamafactory" in run(str(tmp_path / "run.sh"))
