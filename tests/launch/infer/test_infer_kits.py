"""Talks for recipes that have none of their own: by their framework, and ERNIEKit's server with its client."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.job.command import render
from envcheck.job.here import collect_facts_here
from envcheck.job.resolve import resolve_offer
from installers.recipes import catalogue
from installers.recipes.recipe_rules import RULES
from launch.infer import chat_options, kits, talks
from launch.infer.chat_options import ChatOptions, ChosenChat
from launch.infer.kits import ChatKit
from launch.infer.session import beside_its_server
from launch.session import look
from launch.targets.request import TrainRequest

pytestmark = pytest.mark.slow

RECIPES = catalogue.load_all()
WHOLE = ["bash", "-c", 'printf %s "stage: \\"SFT\\"\nfine_tuning: \\"Full\\"\n"', "bash", "erniekit", "train"]


def run_of(folder: Path, recipe: str, device: str, **said: object) -> Path:
    run = folder / "runs" / "20261121-000000-x"
    run.mkdir(parents=True)
    whole = {"state": "finished", "recipe": recipe, "device": device, "container": "c", "method": "sft"}
    (run / "run.json").write_text(json.dumps({**whole, "checkpoints": ["/o/checkpoint-5"], **said}))
    return run


def chosen(run: Path, **more: object) -> ChosenChat:
    return chat_options.choose(ChatOptions(TrainRequest(**more), run=str(run)))  # type: ignore[arg-type]


@pytest.mark.parametrize("kit", kits.kits(), ids=lambda kit: f"{kit.framework}-{kit.method}-{kit.title}")
def test_table(kit: ChatKit) -> None:
    """Every kit keeps the recipes' rules with every recipe of its framework, and how its program talks is known."""
    fitting = [(recipe, job) for recipe in RECIPES for job in kits.jobs(recipe) if job.title == kit.title]

    assert fitting and kit.source
    for recipe, job in fitting:
        assert [wrong for rule in RULES for wrong in rule(replace(recipe, jobs=(job,)))] == []
        assert job.method == "server" or talks.of(render(recipe, job).argv, {})


def test_another_recipe_of_the_framework(tmp_path: Path) -> None:
    """A run by a recipe without a chat is talked with by its framework's, with the template of its training."""
    run = run_of(tmp_path, "qwen-7b-npu8-llamafactory", "npu", method="lora")
    made = chosen(run, settings=("temperature=0.1",))

    assert made.job.launcher == ("llamafactory-cli", "chat")
    for words in (("--template", "qwen"), ("--finetuning_type", "lora"), ("--temperature", "0.1")):
        assert "\n".join(words) in "\n".join(made.job.arguments)
    assert made.adapter == "/app/output/20261121-000000-x/output/checkpoint-5"
    assert made.adapter in made.job.arguments


def test_a_wrong_option_is_refused(tmp_path: Path) -> None:
    """Options are judged as those of a recipe's own job are."""
    run = run_of(tmp_path, "qwen-7b-npu8-llamafactory", "npu", method="lora")

    with pytest.raises(UsageError, match="no option 'temperatur'"):
        chosen(run, settings=("temperatur=0.1",))


@pytest.mark.parametrize("method", (None, "server"))
@pytest.mark.parametrize("command", (WHOLE, ["python", "train.py", "--do_train"]))
def test_whole_models_of_erniekit(method: str | None, command: list[str], tmp_path: Path) -> None:
    """After full tuning server and client have one file of options each, in which the checkpoint is the model."""
    run = run_of(tmp_path, "ernie-21b-nvidia", "nvidia", command=command)
    made = chosen(run, method=method)
    (text,) = render(made.recipe, made.job).files.values()

    assert made.job.launcher == ("erniekit", method or "chat")
    assert 'model_name_or_path: "/workspace/runs/20261121-000000-x/output/checkpoint-5"' in text
    assert "port: 8188" in text


@pytest.mark.parametrize(
    "more", ({"method": "lora"}, {"command": ["python", "train.py", "--lora", "--lora_rank", "32"]})
)
def test_adapters_of_erniekit(more: dict[str, object], tmp_path: Path) -> None:
    """ERNIEKit serves whole models alone: an adapter is refused with the way to go."""
    with pytest.raises(UsageError) as caught:
        chosen(run_of(tmp_path, "ernie-21b-nvidia", "nvidia", **more))

    assert "whole models alone" in caught.value.message
    assert "merge it" in caught.value.next_step


def test_nowhere_to_serve(tmp_path: Path) -> None:
    """On Ascend there is no such server, and none is pretended."""
    with pytest.raises(UsageError, match="no recipe has a chat for the run"):
        chosen(run_of(tmp_path, "ernie-21b-npu", "npu"))


def test_a_client_is_beside_its_server(tmp_path: Path) -> None:
    """The server's envcheck holds the folder of runs; its client is let in, and nobody else."""
    for name, device in (("ernie-0.3b-nvidia", "nvidia"), ("tiny-cpu", "cpu")):
        named = ChatOptions(
            TrainRequest(recipe=name, device=device), adapter=None if device == "nvidia" else "/o/checkpoint-5"
        )
        made = chat_options.choose(named)
        facts = collect_facts_here(made.request)
        job = resolve_offer(made.request, (made.recipe, made.job), facts, str(tmp_path))
        seen = look(made.request, job, facts, tmp_path, None, "4711")

        assert beside_its_server(seen).holder == (None if device == "nvidia" else "4711")
