"""A job in the words of the upstream that is installed: its command, its file of options, what a stand-in receives."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.job.command import render
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from launch.rendering import schema, yaml_file
from launch.rendering.dialects import dialects, spoken
from launch.rendering.rows import rows
from launch.run import launcher
from launch.targets.request import TrainRequest
from tests.launch.chosen import choose_job
from tests.launch.script_parts import elsewhere, heard, prepare, run

ERNIE = {"model": "21b", "method": "lora", "device": "iluvatar"}
NEW = {"paddleformers": "1.2.0", "erniekit": "1.5.0"}
KIT = {"paddleformers": "0.3.1", "erniekit": "1.5.0"}
SWIFT = {"model": "qwen-7b", "method": "lora", "framework": "swift", "variant": "zero2"}


def plain_yaml(text: str) -> dict[str, Any]:
    """Our own files, each value as JSON writes it."""
    lines = [line.partition(": ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: json.loads(value) for name, _, value in lines}


@pytest.mark.parametrize(
    ("which", "installed", "program"),
    (
        (ERNIE, {}, "paddle.distributed.launch"),
        (ERNIE, {"paddleformers": "0.3.1", "erniekit": "1.3.0"}, "paddle.distributed.launch"),
        (ERNIE, {"paddleformers": "0.3.1"}, "paddle.distributed.launch"),
        (ERNIE, KIT, "erniekit"),
        (ERNIE, NEW, "paddleformers-cli"),
        (ERNIE, {"paddleformers": "0.4.0"}, "paddleformers-cli"),
        ({**ERNIE, "method": "dpo"}, NEW, "paddleformers-cli"),
        ({"model": "tiny", "method": "lora", "device": "cpu"}, NEW, "paddle.distributed.launch"),
    ),
)
def test_the_installed_version_chooses(which: dict[str, str], installed: dict[str, str], program: str) -> None:
    """The command is that of the version that is there; with none, that of the version which the recipe pins."""
    _, job = choose_job(TrainRequest(**which), installed)

    assert program in job.launcher


@pytest.mark.parametrize(
    ("version", "option"), (("4.6.0", "tuner_type"), ("3.12.0", "train_type"), ("2.6.1", "sft_type"))
)
def test_swift_of_each_age(version: str, option: str) -> None:
    """ms-swift's option for LoRA has had three names, and version 2 its own names of ZeRO."""
    _, job = choose_job(TrainRequest(**SWIFT), {"ms-swift": version})
    said = rows(job.arguments)

    assert said[option] == ("lora",)
    assert len({"tuner_type", "train_type", "sft_type"} & set(said)) == 1
    assert said["deepspeed"] == (("default-zero2",) if option == "sft_type" else ("zero2",))


def test_said_on_the_command_line() -> None:
    """Where envcheck cannot look, --installed says the version."""
    _, job = choose_job(TrainRequest(**SWIFT, installed=("ms-swift==3.12.0",)))

    assert rows(job.arguments)["train_type"] == ("lora",)


@pytest.mark.parametrize("method", ("lora", "sft", "dpo"))
@pytest.mark.parametrize("device", ("npu", "iluvatar", "nvidia"))
def test_keys_that_the_new_upstream_has(method: str, device: str) -> None:
    """Every key of the file is one of PaddleFormers 1.2, by its own sources; stage and tuner are the job's."""
    recipe, job = choose_job(TrainRequest(model="0.3b", method=method, device=device), NEW)
    made = render(recipe, job, {"output": "/run/output", "log_dir": "/run/log"})
    found = schema.of(made.launcher, recipe, NEW)
    (path, text), *_ = made.files.items()
    said = plain_yaml(text)

    assert found and sorted(set(said) - found.names) == []
    assert made.argv == ("paddleformers-cli", "train", "/run/config/train.yaml") == (*job.launcher, path)
    assert said["stage"] == ("DPO" if method == "dpo" else "SFT")
    assert said["fine_tuning"] == ("LoRA" if method == "lora" else "Full")
    assert said["train_dataset_prob"] == ("1.0")
    assert said["output_dir"] == "/run/output"
    assert made.environment["PADDLEFORMERS_DIST_LOG"] == "/run/log"


@pytest.mark.parametrize("installed", (KIT, NEW), ids=("erniekit", "paddleformers-cli"))
def test_script_writes_the_file(installed: dict[str, str], tmp_path: Path) -> None:
    """The script writes the file of options and starts the program with it; the run's folders win over the file."""
    root = tmp_path / "it's a root"
    recipe, job = choose_job(TrainRequest(**ERNIE), installed)
    command = elsewhere(render(recipe, job), root)
    prepare(command, root)
    done = run(command, root, RUN_DIR=str(root / "run"))
    assert done.returncode == 7, done.stderr
    told = heard(root)
    said = plain_yaml((root / "run/config/train.yaml").read_text())

    assert told.argv[:3] == [job.launcher[0], "train", str(root / "run/config/train.yaml")]
    assert set(told.argv[3:]) == {f"output_dir={root}/run/output", f"logging_dir={root}/run/log/vdl"}
    assert told.env["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, range(16)))
    assert (said["lora_rank"], said["learning_rate"], said["stage"]) == (32, 3e-4, "SFT")
    assert {"PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS", "MASTER_ADDR", "RANK", "NNODES"} <= set(command.unset)
    assert not set(command.unset) & set(told.env)
    assert said["train_dataset_prob"] == "0.2,0.1,0.1,0.2,0.2,0.2"
    assert said["amp_custom_black_list"][0] == "reduce_sum"


def test_train_writes_the_file_as_well(tmp_path: Path) -> None:
    """What train itself starts writes the file first, whatever stands in it, and ends with the program's own status."""
    folder = tmp_path / "it's a run"
    path = str(folder / "config" / "train.yaml")
    text = '# a head\nx: "it\'s $HOME `id` %s"\n'
    made = replace(
        render(*choose_job(TrainRequest(**ERNIE), NEW)),
        scripts=(),
        launcher=("sh", "-c", "exit 7"),
        arguments=(),
        files={path: text},
    )
    done = subprocess.run(launcher.argv(made), check=False)

    assert done.returncode == 7
    assert Path(path).read_text() == text


def test_several_nodes_of_the_new_upstream() -> None:
    """PaddleFormers' program takes a node that says no rank for rank 0: it is told."""
    recipe, job = choose_job(TrainRequest(model="300b", method="sft"), NEW)
    made = render(recipe, job)

    assert {"NNODES": "8", "RANK": "{rank}"}.items() <= made.environment.items()
    assert {"rank", "master"} <= set(made.missing)
    assert not {"RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT"} & set(made.unset)


def test_set_reaches_the_file() -> None:
    """--set and the words behind -- are keys of the file, by the names of the version that is there."""
    wish = TrainRequest(
        **ERNIE, settings=("tensor_model_parallel_size=2", "pipeline_model_parallel_size=8"), extra=("--bf16",)
    )
    recipe, job = choose_job(wish, NEW)
    said = plain_yaml(next(iter(render(recipe, job, {"output": "/o/output"}).files.values())))

    assert (said["tensor_model_parallel_size"], said["bf16"]) == (2, True)
    assert (job.parallel["tensor"], job.parallel["pipeline"]) == (2, 8)


def test_dialects_are_sound() -> None:
    """Each names its source and what it is for, and what it drops has a reason."""
    words = {word for recipe in catalogue.load_all() for job in recipe.jobs for word in job.launcher}

    for dialect in dialects():
        assert dialect.source and dialect.needs
        assert set(dialect.of) <= words
        assert all(len(reason) > 3 for reason in dialect.drop.values())
        assert not set(dialect.rename) & set(dialect.drop)


def test_nothing_is_translated_twice() -> None:
    """A job in another's words is left as it is."""
    recipe = recipe_of("ernie-21b-npu")
    once, first = spoken(recipe, recipe.jobs[0], NEW)

    assert first and first.name == "paddleformers-cli train"
    assert spoken(recipe, once, NEW) == (once, None)


def recipe_of(name: str) -> Recipe:
    return catalogue.by_name(catalogue.load_all(), name)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.lists(st.text(), max_size=3)))
def test_any_value_is_one_line(found: dict[str, list[str]]) -> None:
    """Whatever the values hold, each is one line that JSON and YAML read as it was."""
    text = yaml_file.text(found, "a head")
    said = plain_yaml(text)

    assert len(text.splitlines()) == len(found) + 1
    for name, words in found.items():
        read = said[name] if len(words) > 1 else [said[name]]
        assert (
            [str(one).lower() for one in read] == [one.lower() for one in words] or not words or any(map(number, words))
        )


def number(text: str) -> bool:
    return yaml_file._NUMBER.fullmatch(text) is not None


NUMBERS = (
    *(("1e-5", "1.0e-5"), ("3e4", "3.0e+4"), ("1.5e-06", "1.5e-06"), ("0.1", "0.1"), ("-3", "-3")),
    *(("True", "true"), ("007", '"007"'), ("", '""'), ("1e", '"1e"'), ("0x1", '"0x1"'), ("yes", '"yes"')),
)


@pytest.mark.parametrize(("text", "written"), NUMBERS)
def test_numbers_as_yaml_reads_them(text: str, written: str) -> None:
    """A number stays one for PyYAML, which takes 1e-5 for text; what only looks like one is text."""
    assert yaml_file.text({"x": [text]}, "h").splitlines()[1] == f"x: {written}"
