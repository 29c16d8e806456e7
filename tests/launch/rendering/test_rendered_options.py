"""User options: checked against the upstream's lists, merged into the command, with steps, degrees and files."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from envcheck.cli import main
from envcheck.core.errors import UsageError
from envcheck.core.toml_file import load_own_table
from envcheck.job.command import render_command
from envcheck.job.command_values import fill_values
from envcheck.job.options import set_steps
from envcheck.job.repeat_options import format_job_options
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering import option_schema, user_options, validate
from launch.rendering.argument_rows import format_arguments, merge_rows, parse_rows
from launch.targets.train_request import TrainRequest
from tests.launch.job_choice import choose_job

OFFERS = [(recipe, job) for recipe in catalogue.load_all() for job in recipe.jobs]
NAMES = ["-".join(filter(None, (recipe.name, job.method, job.variant, job.role))) for recipe, job in OFFERS]
NPU = {"model": "21b", "method": "lora", "device": "npu"}
SWIFT = {"model": "qwen-7b", "method": "lora", "framework": "swift"}
UPSTREAM = [found for found in option_schema.load_schemas() if not found.title]


def choose_request_job(**more: Any) -> tuple[Recipe, RecipeJob]:
    return choose_job(TrainRequest(**more))


@pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
def test_recipes_know_their_upstream(recipe: Recipe, job: RecipeJob) -> None:
    """Every option of every job is in the option list of the pinned upstream."""
    found = option_schema.find_schema(job.launcher, recipe, {})
    mine = (*parse_rows(job.arguments), *parse_rows(job.own_data))

    assert [name for name in mine if found and not found.has_option(name)] == []
    assert found or recipe.framework == "envcheck"


@pytest.mark.parametrize("found", UPSTREAM, ids=lambda found: f"{found.program} {found.versions}")
def test_lists_are_lists(found: option_schema.OptionSchema) -> None:
    """A list cites its source and contains option names as the upstream spells them."""
    assert len(found.names) > 20
    assert "wheel" in found.source or "hparams" in found.source
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in found.names)


def test_own_program_is_listed() -> None:
    """The list of the tiny program contains exactly the options of its parser."""
    source = (Path(option_schema.__file__).parents[1] / "programs" / "tiny.py").read_text(encoding="utf-8")
    (mine,) = [found for found in option_schema.load_schemas() if found.title]

    assert mine.names == set(re.findall(r'add_argument\("--([\w-]+)"', source))


def test_set_takes_the_place() -> None:
    """An option of --set or after -- replaces the recipe's at its position; a new one comes last."""
    _, plain = choose_request_job(**NPU)
    _, job = choose_request_job(
        **NPU, settings=("learning_rate=1e-5", "max_grad_norm=1"), extra=("--lora_alpha", "64", "--rslora")
    )
    before, after = parse_rows(plain.arguments), parse_rows(job.arguments)

    assert after == {**before, "learning_rate": ("1e-5",), "max_grad_norm": ("1",), "lora_alpha": ("64",), "rslora": ()}
    assert list(after)[: len(before)] == list(before)


WRONG = (
    (NPU, {"settings": ("learning_rat=1",)}, "no option 'learning_rat'", "did you mean learning_rate?"),
    (NPU, {"extra": ("--learning-rate", "1")}, "no option 'learning-rate'", "did you mean learning_rate?"),
    (NPU, {"settings": ("seed=1",), "extra": ("--seed", "2")}, "seed is set 2 times", "use only one of them"),
    (NPU, {"settings": ("seed=1", "seed=1")}, "seed is set 2 times", "use only one of them"),
    (NPU, {"extra": ("--seed", "2", "--seed=3")}, "seed is set 2 times", "use only one of them"),
    (NPU, {"settings": ("max_steps=9",), "steps": 8}, "max_steps conflicts with --steps", "use only one of them"),
    (NPU, {"settings": ("max_steps=abc",)}, "max_steps expects a number, got 'abc'", "--set max_steps=4"),
    ({"recipe": "tiny-cpu", "method": "lora"}, {"settings": ("steps=0",)}, "steps expects a number, got '0'", "--set"),
    (NPU, {"extra": ("--save_steps",)}, "save_steps expects a number, got ''", "--set save_steps=4"),
    (NPU, {"settings": ("seed",)}, "'seed' is not NAME=VALUE", "--set learning_rate=1e-5"),
    (NPU, {"extra": ("tiny",)}, "'tiny' is not NAME=VALUE", "--set"),
    (NPU, {"extra": ("7", "--seed", "2")}, "'7' after -- is not an option", "start with an option: -- --NAME VALUE"),
    (SWIFT, {"settings": ("hub_token=abcdef123456",)}, "hub_token looks like a secret", "log in"),
    (SWIFT, {"extra": ("--wandb_api_key", "abcdef123456")}, "wandb_api_key looks like a secret", "log in"),
    (NPU, {"settings": ("$(id)=1",)}, "'$(id)' is not an option name", "use letters, digits and _"),
    (NPU, {"settings": ("output_dir=/x",)}, "output_dir is set by envcheck to the folder of the run", "--runs"),
    (
        NPU,
        {"settings": ("warmup_steps=900",)},
        "warmup_steps=900 is not below max_steps=200",
        "set warmup_steps below 200, or max_steps above 900, for example --set warmup_steps=10",
    ),
    (
        NPU,
        {"settings": ("max_steps=10",)},
        "warmup_steps=20 is not below max_steps=10",
        "set warmup_steps below 10, or max_steps above 20",
    ),
    (
        NPU,
        {"settings": ("tensor_parallel_degree=3",)},
        "3 x pipeline_parallel_degree 4 x sharding_parallel_degree 1 = 12, which does not divide 16 processes",
        "with the other degrees unchanged, use tensor_parallel_degree 1, 2, 4",
    ),
    (
        NPU,
        {"settings": ("max_seq_len=0",)},
        "max_seq_len expects a whole number of at least 1, got '0'",
        "--set max_seq_len=8",
    ),
    (NPU, {"settings": ("max_seq_len=-5",)}, "max_seq_len expects a whole number of at least 1, got '-5'", "--set"),
    (NPU, {"settings": ("max_seq_len=8k",)}, "max_seq_len expects a whole number of at least 1, got '8k'", "--set"),
    (NPU, {"extra": ("--lora_rank", "8", "9")}, "lora_rank expects a whole number of at least 1, got '8 9'", "--set"),
    (
        NPU,
        {"settings": ("learning_rate=nan",)},
        "learning_rate expects a number above 0, got 'nan'",
        "learning_rate=1e-5",
    ),
    (NPU, {"settings": ("weight_decay=-1",)}, "weight_decay expects a number of at least 0, got '-1'", "--set"),
    (NPU, {"settings": ("adam_beta1=2",)}, "adam_beta1 expects a number from 0 to 1, got '2'", "--set adam_beta1=0.1"),
    (NPU, {"installed": ("paddleformers",)}, "not NAME=VERSION", "--installed"),
    (NPU, {"rank": 0}, "the command of ernie-21b-npu, lora, does not use --rank", "remove --rank"),
    (NPU, {"nnodes": 2, "rank": 2}, "invalid --rank 2: expected 0 to 1", "use each number once"),
    (NPU, {"nnodes": 2, "master": "127.0.0.1:9"}, "--master 127.0.0.1 is a loopback address", "reach"),
    (
        NPU,
        {"nnodes": 2, "master": "node-0:99999"},
        "--master node-0:99999: expected a port from 1 to 65535",
        "192.0.2.1",
    ),
    (NPU, {"nnodes": 2, "master": ":29500"}, "--master ':29500' is not an address", "192.0.2.1"),
    (NPU, {"nnodes": 2, "master": "-x"}, "--master '-x' is not an address", "192.0.2.1"),
    (NPU, {"nnodes": 2, "host": "a b"}, "--host 'a b' is not an address", "192.0.2.1"),
    (NPU, {"nnodes": 2, "host": "node-1:29500"}, "--host node-1:29500 contains a port", "without a port"),
    (
        NPU,
        {"cards": 5},
        "1 x 5 = 5 cards; tensor 4 x pipeline 4 x sharding 1 needs a multiple of 16",
        "--method lora --device npu --cards 5 --search`",
    ),
    (
        {"model": "21b", "method": "lora", "node_role": "nvidia"},
        {"rank": 1},
        "invalid --rank 1: expected 0",
        "use each number once",
    ),
    (
        {"model": "21b", "method": "lora", "node_role": "nvidia"},
        {"cards": 4},
        "requires exactly 2 nodes with 8 cards each",
        "remove --nnodes",
    ),
    ({"model": "qwen-7b", "method": "chat"}, {"nnodes": 2}, "runs on 1 x 1 cards only", "this number of hosts"),
    ({"model": "qwen-7b", "method": "chat"}, {"data": Path("x")}, "chat, does not use --data", "remove --data"),
)


@pytest.mark.parametrize(("which", "more", "message", "step"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong(which: dict[str, Any], more: dict[str, Any], message: str, step: str) -> None:
    """An invalid option is rejected with one sentence and the next step, before the machine is examined."""
    with pytest.raises(UsageError) as caught:
        choose_request_job(**which, **more)

    assert message in caught.value.message
    assert step in (caught.value.next_step or "")


def test_options_of_a_kind_are_options() -> None:
    """Each name in the table of kinds is an option of some upstream and is listed under one kind only."""
    names = [name for of_kind in load_own_table(validate.KINDS_FILE).values() for name in of_kind]
    there = set().union(*(one.names for one in option_schema.load_schemas()))

    assert set(names) <= there
    assert len(names) == len(set(names))


def test_every_value_of_a_recipe_is_of_its_kind() -> None:
    """Every value in our own recipes is valid."""
    for recipe in catalogue.load_all(None):
        for job in recipe.jobs:
            validate.check_values(parse_rows(job.arguments))


def test_unknown_option_of_a_newer_version_is_a_note() -> None:
    """For a version newer than the list, an unknown option is passed on with a note and the most similar name."""
    _, job = choose_request_job(**SWIFT, settings=("learning_rat=1",), installed=("ms-swift=4.99.0",))

    assert parse_rows(job.arguments)["learning_rat"] == ("1",)
    assert "cannot determine whether this version has the option learning_rat; it has learning_rate" in job.caution[-1]


def test_steps_and_degrees_follow() -> None:
    """The counts that gates and planner read match the options of the job."""
    _, job = choose_request_job(
        **NPU, settings=("max_steps=50", "tensor_parallel_degree=2", "pipeline_parallel_degree=2")
    )

    assert (job.steps["max"], job.parallel["tensor"], job.parallel["pipeline"]) == (50, 2, 2)
    assert set_steps(job, 40).steps["max"] == 40


def test_a_value_that_is_not_a_count_is_unknown() -> None:
    """-1 (the upstream decides) and a share replace the recipe's figure by an unknown one."""
    _, job = choose_request_job(
        **NPU, settings=("max_steps=-1", "save_steps=0.1", "sharding_parallel_degree=-1", "eval_steps=7")
    )

    assert job.steps.keys() & {"max", "save", "eval"} == {"eval"}
    assert job.steps["eval"] == 7
    assert "sharding" not in job.parallel


def test_own_model_is_required() -> None:
    """The config.json of the user's model is a required file."""
    recipe, job = choose_request_job(**NPU, settings=("model_name_or_path=/models/mine",))
    made = render_command(recipe, job)

    assert "/models/mine/config.json" in made.requires
    assert parse_rows(made.arguments)["model_name_or_path"] == ("/models/mine",)


def test_own_data() -> None:
    """--data sets its options, and the recipe's own file is no longer required."""
    recipe, job = choose_request_job(**NPU, data=Path("/my/data.jsonl"))
    made = render_command(recipe, job)

    assert parse_rows(made.arguments)["train_dataset_path"] == ("/my/data.jsonl",)
    assert parse_rows(made.arguments)["train_dataset_prob"] == ("1.0",)
    assert "/my/data.jsonl" in made.requires
    assert "examples/data/sft-train.jsonl" not in (*made.requires, *made.data)
    assert "examples/data/sft-eval.jsonl" in made.requires


def test_own_data_of_llamafactory() -> None:
    """LLaMA-Factory gets the file by a dataset_info.json in the folder of the run, whatever its name."""
    recipe, job = choose_request_job(
        model="qwen-7b", method="lora", framework="llamafactory", data=Path('/my/"data".json')
    )
    made = render_command(recipe, job, {"output": "/run/output"})
    text = made.files["/run/config/dataset_info.json"]

    assert json.loads(text) == {"own": {"file_name": '/my/"data".json'}}
    assert parse_rows(made.arguments)["dataset_dir"] == ("/run/config",)
    assert parse_rows(made.arguments)["dataset"] == ("own",)
    assert render_command(*choose_request_job(model="qwen-7b", method="lora", framework="llamafactory")).files == {}


@pytest.mark.parametrize(
    ("which", "nodes", "words"),
    (
        (NPU, 2, ["--master", "{master}:{port}", "--nnodes", "2", "--rank", "{rank}", "--host", "{host}"]),
        (
            {"model": "qwen-7b", "variant": "zero2", "framework": "llamafactory"},
            2,
            ["--node_rank", "{rank}", "--master_addr", "{master}", "--master_port", "7007", "src/train.py"],
        ),
    ),
)
def test_several_nodes(which: dict[str, Any], nodes: int, words: list[str]) -> None:
    """Each launcher gets the options that it needs for several nodes."""
    recipe, job = choose_request_job(**which, nnodes=nodes)
    made = render_command(recipe, job).launcher
    first = made.index(words[0])

    assert list(made[first : first + len(words)]) == words
    assert job.parallel["data"] == nodes * (job.processes if "tensor" not in job.parallel else 1)


def test_several_cards_of_swift() -> None:
    """ms-swift takes the number of processes and nodes from environment variables."""
    _, one = choose_request_job(**SWIFT, cards=1)
    _, eight = choose_request_job(**SWIFT, cards=8, nnodes=2)

    assert "NPROC_PER_NODE" not in one.environment
    assert eight.environment["NPROC_PER_NODE"] == "{processes}"
    assert {"NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"} <= set(eight.environment)


def test_nodes_fill_the_blanks() -> None:
    """--rank, --master, --host and --port fill their tokens in the command."""
    wish = TrainRequest(model="300b", method="sft", device="npu", rank=3, master="192.0.2.1", host="192.0.2.4", port=99)
    recipe, job = choose_job(wish)
    made = render_command(recipe, job, fill_values(wish, recipe, None))
    options = parse_rows(made.launcher[3:-1])

    assert (options["rank"], options["master"], options["host"]) == (("3",), ("192.0.2.1:99",), ("192.0.2.4",))
    assert not {"rank", "master", "host", "port"} & set(made.missing)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    (
        ("192.0.2.1:99", "192.0.2.1", "99"),
        ("node0", "node0", "12123"),
        ("[2001:db8::1]:99", "[2001:db8::1]", "99"),
        ("2001:db8::1", "2001:db8::1", "12123"),
    ),
)
def test_master_with_its_port(text: str, host: str, port: str) -> None:
    """--master may contain a port; an IPv6 address keeps its colons."""
    wish = TrainRequest(model="300b", method="sft", device="npu", master=text)
    recipe, job = choose_job(wish)
    made = render_command(recipe, job, fill_values(wish, recipe, None))

    assert parse_rows(made.launcher[3:-1])["master"] == (f"{host}:{port}",)


def test_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line accepts --set several times, and training options after --."""
    asked = ["train", "--recipe", "ernie-21b-npu", "--method", "lora", "--dry-run", "--json", "--set", "seed=7"]
    with pytest.raises(SystemExit) as caught:
        main.entry([*asked, "--set", "lora_rank=8", "--", "--lora_alpha", "-1", "--amp_custom_white_list", "a b", "c"])
    out, err = capsys.readouterr()
    assert caught.value.code == 0, err
    options = parse_rows(json.loads(out)["command"][3:])

    assert (options["seed"], options["lora_rank"], options["lora_alpha"]) == (("7",), ("8",), ("-1",))
    assert options["amp_custom_white_list"] == ("a b", "c")


words = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(("--seed", "--seed=1", "--")), max_size=6
)


@for_all(words, words)
def test_any_words(pairs: list[str], extra: list[str]) -> None:
    """Any input is either parsed or rejected with a message and a next step."""
    try:
        found = user_options.parse_user_options(pairs, extra)
    except UsageError as err:
        assert err.message and err.next_step
    else:
        assert all(name.replace("-", "_").isidentifier() for name in found)


names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
values = st.lists(st.from_regex(r"[a-z0-9 =.]{0,5}", fullmatch=True), max_size=3)


@for_all(st.dictionaries(names, values))
def test_rows_and_back(found: dict[str, list[str]]) -> None:
    """Merging no options leaves the arguments unchanged."""
    flat = format_arguments(found)

    assert merge_rows(flat, {}) == flat
    assert parse_rows(flat) == {name: tuple(values) for name, values in found.items()}


def test_unknown_version_has_no_list() -> None:
    """No list applies to a version whose sources were not read."""
    recipe = catalogue.find_recipe(catalogue.load_all(), "qwen-7b-npu-swift")

    assert option_schema.find_schema(("swift", "sft"), recipe, {"ms-swift": "1.0"}) is None
    assert option_schema.find_schema(("swift", "sft"), recipe, {"ms-swift": "no version"}) is None
    assert option_schema.find_schema(("swift", "sft"), replace(recipe, packages=()), {}) is not None


@pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
def test_words_mean_the_same_job(recipe: Recipe, job: RecipeJob) -> None:
    """The options printed in a remedy select the same job again."""
    pairs = iter(shlex.split(format_job_options(TrainRequest(), recipe, job)))
    again = {option.removeprefix("--"): value for option, value in zip(pairs, pairs, strict=True)}

    assert choose_job(TrainRequest(**again)) == (recipe, job)


SOURCES = """
class Grand:
    old: int = 1
class HfArgs(Grand):
    rate: float = field(default=1.0)
    made: str = field(init=False)
    _hidden: int = 0
    kinds: ClassVar[int] = 3
    method = 7
class Args(HfArgs, Gone):
    loss: str = "x"
    fast: Optional[bool] = field(default=True, metadata={"help": "x"})
    slow: bool = False
"""
OTHER = """
class Args:
    pass
class Theirs(Args):
    own: int = 1
"""
USER = """
from .a import Args as TheirArgs
class Mine(TheirArgs):
    mine: bool = True
"""


def test_lists_are_read_from_sources(tmp_path: Path) -> None:
    """The tool that creates the lists includes inherited and imported fields, but no fixed or private ones."""
    (tmp_path / "a.py").write_text(SOURCES)
    (tmp_path / "b.py").write_text(OTHER)
    (tmp_path / "c.py").write_text(USER)
    (tmp_path / "broken.py").write_text("class Args(:\n")
    tool = Path(__file__).parent / "upstream_options.py"
    done = {
        name: subprocess.run([sys.executable, str(tool), str(tmp_path), name], capture_output=True, text=True)
        for name in ("Args", "c:Mine", "b:Theirs", "None")
    }
    gone = done["None"]

    assert done["Args"].stdout.splitlines() == ["fast on", "loss", "old", "rate", "slow"]
    assert done["c:Mine"].stdout.splitlines() == ["fast on", "loss", "mine on", "old", "rate", "slow"]
    assert done["b:Theirs"].stdout.splitlines() == ["own"]
    assert (gone.returncode, "class not found: None" in gone.stderr) == (1, True)
