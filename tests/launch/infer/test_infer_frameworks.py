"""Chats for recipes without a chat job: by their framework, and ERNIEKit's server with its client."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.job.command import render_command
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.resolve import resolve_offer
from installers.recipes import catalogue
from installers.recipes.validation import RULES
from launch.infer import chat_kits, chat_options, chat_programs
from launch.infer.chat_kits import ChatKit
from launch.infer.chat_options import ChatOptions, ChosenChat
from launch.infer.chat_session import ignore_own_server
from launch.local_run import collect_context
from launch.targets.train_request import TrainRequest

pytestmark = pytest.mark.slow

RECIPES = catalogue.load_all()
WHOLE = ["bash", "-c", 'printf %s "stage: \\"SFT\\"\nfine_tuning: \\"Full\\"\n"', "bash", "erniekit", "train"]


def write_run(folder: Path, recipe: str, device: str, **said: object) -> Path:
    run = folder / "runs" / "20261121-000000-x"
    run.mkdir(parents=True)
    whole = {"state": "succeeded", "recipe": recipe, "device": device, "container": "c", "method": "sft"}
    (run / "run.json").write_text(json.dumps({**whole, "checkpoints": ["/o/checkpoint-5"], **said}))
    return run


def choose_chat(run: Path, **more: object) -> ChosenChat:
    return chat_options.choose_chat(ChatOptions(TrainRequest(**more), run=str(run)))  # type: ignore[arg-type]


@pytest.mark.parametrize("kit", chat_kits.load_kits(), ids=lambda kit: f"{kit.framework}-{kit.method}-{kit.title}")
def test_table(kit: ChatKit) -> None:
    """Every kit satisfies the rules for recipes, and talks.toml knows its program."""
    fitting = [
        (recipe, job) for recipe in RECIPES for job in chat_kits.build_chat_jobs(recipe) if job.title == kit.title
    ]

    assert fitting and kit.source
    for recipe, job in fitting:
        assert [wrong for rule in RULES for wrong in rule(replace(recipe, jobs=(job,)))] == []
        assert job.method == "server" or chat_programs.find_program(render_command(recipe, job).argv, {})


def test_another_recipe_of_the_framework(tmp_path: Path) -> None:
    """A recipe without a chat job uses its framework's, with the template of the training."""
    run = write_run(tmp_path, "qwen-7b-npu8-llamafactory", "npu", method="lora")
    made = choose_chat(run, settings=("temperature=0.1",))

    assert made.job.launcher == ("llamafactory-cli", "chat")
    for words in (("--template", "qwen"), ("--finetuning_type", "lora"), ("--temperature", "0.1")):
        assert "\n".join(words) in "\n".join(made.job.arguments)
    assert made.adapter == "/app/output/20261121-000000-x/output/checkpoint-5"
    assert made.adapter in made.job.arguments


def test_a_wrong_option_is_refused(tmp_path: Path) -> None:
    """Options are validated as for a job of a recipe."""
    run = write_run(tmp_path, "qwen-7b-npu8-llamafactory", "npu", method="lora")

    with pytest.raises(UsageError, match="no option 'temperatur'"):
        choose_chat(run, settings=("temperatur=0.1",))


@pytest.mark.parametrize("method", (None, "server"))
@pytest.mark.parametrize("command", (WHOLE, ["python", "train.py", "--do_train"]))
def test_whole_models_of_erniekit(method: str | None, command: list[str], tmp_path: Path) -> None:
    """After full fine-tuning, server and client get an option file with the checkpoint as the model."""
    run = write_run(tmp_path, "ernie-21b-nvidia", "nvidia", command=command)
    made = choose_chat(run, method=method)
    (text,) = render_command(made.recipe, made.job).files.values()

    assert made.job.launcher == ("erniekit", method or "chat")
    assert 'model_name_or_path: "/workspace/runs/20261121-000000-x/output/checkpoint-5"' in text
    assert "port: 8188" in text


@pytest.mark.parametrize(
    "more", ({"method": "lora"}, {"command": ["python", "train.py", "--lora", "--lora_rank", "32"]})
)
def test_adapters_of_erniekit(more: dict[str, object], tmp_path: Path) -> None:
    """ERNIEKit serves full models only: an adapter is refused with the next step."""
    with pytest.raises(UsageError) as caught:
        choose_chat(write_run(tmp_path, "ernie-21b-nvidia", "nvidia", **more))

    assert caught.value.message == "erniekit chat supports full models only, not adapters"
    assert "merge the adapter into its model" in caught.value.next_step


def test_nowhere_to_serve(tmp_path: Path) -> None:
    """There is no such server on Ascend."""
    with pytest.raises(UsageError, match="no chat program available for run "):
        choose_chat(write_run(tmp_path, "ernie-21b-npu", "npu"))


def test_a_client_may_start_with_its_server(tmp_path: Path) -> None:
    """The server's envcheck locks the runs folder; only its client may still start."""
    for name, device in (("ernie-0.3b-nvidia", "nvidia"), ("tiny-cpu", "cpu")):
        named = ChatOptions(
            TrainRequest(recipe=name, device=device), adapter=None if device == "nvidia" else "/o/checkpoint-5"
        )
        made = chat_options.choose_chat(named)
        facts = collect_facts_here(made.request)
        job = resolve_offer(made.request, (made.recipe, made.job), facts, str(tmp_path))
        seen = collect_context(made.request, job, facts, tmp_path, None, "4711")

        assert ignore_own_server(seen).holder == (None if device == "nvidia" else "4711")
