"""A job translated for the installed upstream: its command, its option file, and what a stand-in receives."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.job.command import render_command
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from launch.rendering import option_schema, yaml_file
from launch.rendering.argument_rows import parse_rows
from launch.rendering.dialects import load_dialects, translate_job
from launch.run import launcher
from launch.targets.train_request import TrainRequest
from tests.launch.job_choice import choose_job
from tests.launch.script_parts import move_command, prepare_files, read_recorded_call, run_script

ERNIE = {"model": "21b", "method": "lora", "device": "iluvatar"}
NEW = {"paddleformers": "1.2.0", "erniekit": "1.5.0"}
KIT = {"paddleformers": "0.3.1", "erniekit": "1.5.0"}
DEVICES = sorted({recipe.device for recipe in catalogue.load_all() if recipe.framework == "erniekit"})
SWIFT = {"model": "qwen-7b", "method": "lora", "framework": "swift", "variant": "zero2"}


def parse_plain_yaml(text: str) -> dict[str, Any]:
    """Read a file of ours, in which each value is JSON."""
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
    """The command is for the installed version; without one, for the version that the recipe pins."""
    _, job = choose_job(TrainRequest(**which), installed)

    assert program in job.launcher


@pytest.mark.parametrize(
    ("version", "option"), (("4.6.0", "tuner_type"), ("3.12.0", "train_type"), ("2.6.1", "sft_type"))
)
def test_swift_of_each_age(version: str, option: str) -> None:
    """ms-swift's option for LoRA has had three names, and version 2 its own names of ZeRO."""
    _, job = choose_job(TrainRequest(**SWIFT), {"ms-swift": version})
    options = parse_rows(job.arguments)

    assert options[option] == ("lora",)
    assert len({"tuner_type", "train_type", "sft_type"} & set(options)) == 1
    assert options["deepspeed"] == (("default-zero2",) if option == "sft_type" else ("zero2",))


def test_version_given_on_the_command_line() -> None:
    """--installed sets a version that envcheck cannot detect."""
    _, job = choose_job(TrainRequest(**SWIFT, installed=("ms-swift==3.12.0",)))

    assert parse_rows(job.arguments)["train_type"] == ("lora",)


@pytest.mark.parametrize("method", ("lora", "sft", "dpo"))
@pytest.mark.parametrize("device", ("npu", "iluvatar", "nvidia"))
def test_keys_that_the_new_upstream_has(method: str, device: str) -> None:
    """Every key of the file is an option of PaddleFormers 1.2; stage and tuner are those of the job."""
    recipe, job = choose_job(TrainRequest(model="0.3b", method=method, device=device), NEW)
    made = render_command(recipe, job, {"output": "/run/output", "log_dir": "/run/log"})
    found = option_schema.find_schema(made.launcher, recipe, NEW)
    (path, text), *_ = made.files.items()
    options = parse_plain_yaml(text)

    assert found and sorted(set(options) - found.names) == []
    assert made.argv == ("paddleformers-cli", "train", "/run/config/train.yaml") == (*job.launcher, path)
    assert options["stage"] == ("DPO" if method == "dpo" else "SFT")
    assert options["fine_tuning"] == ("LoRA" if method == "lora" else "Full")
    assert options["train_dataset_prob"] == ("1.0")
    assert options["output_dir"] == "/run/output"
    assert made.environment["PADDLEFORMERS_DIST_LOG"] == "/run/log"


@pytest.mark.parametrize("installed", (KIT, NEW), ids=("erniekit", "paddleformers-cli"))
@pytest.mark.parametrize("device", DEVICES)
def test_cards_of_the_newer_programs(device: str, installed: dict[str, str]) -> None:
    """These programs take every visible card, so the vendor's variable names the card of the job."""
    made = render_command(*choose_job(TrainRequest(model="0.3b", method="lora", device=device), installed))
    variable = VENDORS[device].visible_env

    assert made.environment[variable] == "0"
    assert variable not in made.unset


@pytest.mark.parametrize("installed", (KIT, NEW), ids=("erniekit", "paddleformers-cli"))
def test_script_writes_the_file(installed: dict[str, str], tmp_path: Path) -> None:
    """The script writes the option file and starts the program with it; the folders of the run override the file."""
    root = tmp_path / "it's a root"
    recipe, job = choose_job(TrainRequest(**ERNIE), installed)
    command = move_command(render_command(recipe, job), root)
    prepare_files(command, root)
    done = run_script(command, root, RUN_DIR=str(root / "run"))
    assert done.returncode == 7, done.stderr
    call = read_recorded_call(root)
    options = parse_plain_yaml((root / "run/config/train.yaml").read_text())

    assert call.argv[:3] == [job.launcher[0], "train", str(root / "run/config/train.yaml")]
    assert set(call.argv[3:]) == {f"output_dir={root}/run/output", f"logging_dir={root}/run/log/vdl"}
    assert call.env["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, range(16)))
    assert (options["lora_rank"], options["learning_rate"], options["stage"]) == (32, 3e-4, "SFT")
    assert {"PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS", "MASTER_ADDR", "RANK", "NNODES"} <= set(command.unset)
    assert not set(command.unset) & set(call.env)
    assert options["train_dataset_prob"] == "0.2,0.1,0.1,0.2,0.2,0.2"
    assert options["amp_custom_black_list"][0] == "reduce_sum"


def test_train_writes_the_file_as_well(tmp_path: Path) -> None:
    """train writes the option file first, whatever it contains, and exits with the program's status."""
    folder = tmp_path / "it's a run"
    path = str(folder / "config" / "train.yaml")
    text = '# a head\nx: "it\'s $HOME `id` %s"\n'
    made = replace(
        render_command(*choose_job(TrainRequest(**ERNIE), NEW)),
        scripts=(),
        launcher=("sh", "-c", "exit 7"),
        arguments=(),
        files={path: text},
    )
    done = subprocess.run(launcher.build_argv(made), check=False)

    assert done.returncode == 7
    assert Path(path).read_text() == text


def test_several_nodes_of_the_new_upstream() -> None:
    """PaddleFormers' program assumes rank 0 without a rank, so the rank is always set."""
    recipe, job = choose_job(TrainRequest(model="300b", method="sft", device="npu"), NEW)
    made = render_command(recipe, job)

    assert {"NNODES": "8", "RANK": "{rank}"}.items() <= made.environment.items()
    assert {"rank", "master"} <= set(made.missing)
    assert not {"RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT"} & set(made.unset)


def test_set_reaches_the_file() -> None:
    """Options of --set and after -- become keys of the file, named as in the installed version."""
    wish = TrainRequest(
        **ERNIE, settings=("tensor_model_parallel_size=2", "pipeline_model_parallel_size=8"), extra=("--bf16",)
    )
    recipe, job = choose_job(wish, NEW)
    options = parse_plain_yaml(next(iter(render_command(recipe, job, {"output": "/o/output"}).files.values())))

    assert (options["tensor_model_parallel_size"], options["bf16"]) == (2, True)
    assert (job.parallel["tensor"], job.parallel["pipeline"]) == (2, 8)


def test_dialects_are_sound() -> None:
    """Each dialect names its source and its packages, and gives a reason for each option that it drops."""
    words = {word for recipe in catalogue.load_all() for job in recipe.jobs for word in job.launcher}

    for dialect in load_dialects():
        assert dialect.source and dialect.needs
        assert set(dialect.of) <= words
        assert all(len(reason) > 3 for reason in dialect.drop.values())
        assert not set(dialect.rename) & set(dialect.drop)


def test_nothing_is_translated_twice() -> None:
    """A translated job is not translated again."""
    recipe = load_recipe("ernie-21b-npu")
    once, first = translate_job(recipe, recipe.jobs[0], NEW)

    assert first and first.name == "paddleformers-cli train"
    assert translate_job(recipe, once, NEW) == (once, None)


def load_recipe(name: str) -> Recipe:
    return catalogue.find_recipe(catalogue.load_all(), name)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.lists(st.text(), max_size=3)))
def test_any_value_is_one_line(found: dict[str, list[str]]) -> None:
    """Any value becomes one line that JSON and YAML read back unchanged."""
    text = yaml_file.render_yaml(found, "a head")
    parsed = parse_plain_yaml(text)

    assert len(text.splitlines()) == len(found) + 1
    for name, words in found.items():
        read = parsed[name] if len(words) > 1 else [parsed[name]]
        assert (
            [str(one).lower() for one in read] == [one.lower() for one in words]
            or not words
            or any(map(is_number, words))
        )


def is_number(text: str) -> bool:
    return yaml_file._NUMBER.fullmatch(text) is not None


NUMBERS = (
    *(("1e-5", "1.0e-5"), ("3e4", "3.0e+4"), ("1.5e-06", "1.5e-06"), ("0.1", "0.1"), ("-3", "-3")),
    *(("True", "true"), ("007", '"007"'), ("", '""'), ("1e", '"1e"'), ("0x1", '"0x1"'), ("yes", '"yes"')),
)


@pytest.mark.parametrize(("text", "written"), NUMBERS)
def test_numbers_as_yaml_reads_them(text: str, written: str) -> None:
    """A number stays a number for PyYAML, which reads 1e-5 as text; what only looks like one is text."""
    assert yaml_file.render_yaml({"x": [text]}, "h").splitlines()[1] == f"x: {written}"
