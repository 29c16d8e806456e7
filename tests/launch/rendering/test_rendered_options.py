"""The user's own options: judged by the upstream's lists, put into the command, followed by steps, degrees, files."""

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
from envcheck.core.toml_file import own_table
from envcheck.job.command import render
from envcheck.job.options import set_steps
from envcheck.job.repeat_options import format_job_options
from envcheck.job.values import fill_values
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering import schema, user_options, validate
from launch.rendering.rows import arguments, merged, rows
from launch.targets.request import TrainRequest
from tests.launch.chosen import choose_job

OFFERS = [(recipe, job) for recipe in catalogue.load_all() for job in recipe.jobs]
NAMES = ["-".join(filter(None, (recipe.name, job.method, job.variant, job.role))) for recipe, job in OFFERS]
NPU = {"model": "21b", "method": "lora", "device": "npu"}
SWIFT = {"model": "qwen-7b", "method": "lora", "framework": "swift"}
UPSTREAM = [found for found in schema.lists() if not found.title]


def chosen(**more: Any) -> tuple[Recipe, RecipeJob]:
    return choose_job(TrainRequest(**more))


@pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
def test_recipes_know_their_upstream(recipe: Recipe, job: RecipeJob) -> None:
    """Every option of every job is one that the pinned upstream has, by the list of its own sources."""
    found = schema.of(job.launcher, recipe, {})
    mine = (*rows(job.arguments), *rows(job.own_data))

    assert [name for name in mine if found and not found.has(name)] == []
    assert found or recipe.framework == "envcheck"


@pytest.mark.parametrize("found", UPSTREAM, ids=lambda found: f"{found.program} {found.versions}")
def test_lists_are_lists(found: schema.OptionSchema) -> None:
    """A list says where it comes from, and holds names as an upstream writes them."""
    assert len(found.names) > 20
    assert "wheel" in found.source or "hparams" in found.source
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in found.names)


def test_own_program_is_listed() -> None:
    """The list of the tiny program holds the options of its parser, all of them and no other."""
    source = (Path(schema.__file__).parents[1] / "programs" / "tiny.py").read_text(encoding="utf-8")
    (mine,) = [found for found in schema.lists() if found.title]

    assert mine.names == set(re.findall(r'add_argument\("--([\w-]+)"', source))


def test_set_takes_the_place() -> None:
    """An option of --set stands where the recipe's stood, one that it lacks comes last; behind -- as well."""
    _, plain = chosen(**NPU)
    _, job = chosen(**NPU, settings=("learning_rate=1e-5", "max_grad_norm=1"), extra=("--lora_alpha", "64", "--rslora"))
    before, after = rows(plain.arguments), rows(job.arguments)

    assert after == {**before, "learning_rate": ("1e-5",), "max_grad_norm": ("1",), "lora_alpha": ("64",), "rslora": ()}
    assert list(after)[: len(before)] == list(before)


WRONG = (
    (NPU, {"settings": ("learning_rat=1",)}, "no option 'learning_rat'", "did you mean learning_rate?"),
    (NPU, {"extra": ("--learning-rate", "1")}, "no option 'learning-rate'", "did you mean learning_rate?"),
    (NPU, {"settings": ("seed=1",), "extra": ("--seed", "2")}, "seed is said 2 times", "say it once"),
    (NPU, {"settings": ("seed=1", "seed=1")}, "seed is said 2 times", "say it once"),
    (NPU, {"extra": ("--seed", "2", "--seed=3")}, "seed is said 2 times", "say it once"),
    (NPU, {"settings": ("max_steps=9",), "steps": 8}, "max_steps is said by --steps as well", "say it once"),
    (NPU, {"settings": ("max_steps=abc",)}, "max_steps wants a number, not 'abc'", "--set max_steps=4"),
    ({"recipe": "tiny-cpu", "method": "lora"}, {"settings": ("steps=0",)}, "steps wants a number, not '0'", "--set"),
    (NPU, {"extra": ("--save_steps",)}, "save_steps wants a number, not ''", "--set save_steps=4"),
    (NPU, {"settings": ("seed",)}, "'seed' is not NAME=VALUE", "--set learning_rate=1e-5"),
    (NPU, {"extra": ("tiny",)}, "'tiny' is not NAME=VALUE", "--set"),
    (NPU, {"extra": ("7", "--seed", "2")}, "'7' behind -- belongs to no option", "an option comes first"),
    (SWIFT, {"settings": ("hub_token=abcdef123456",)}, "hub_token looks like a secret", "log in"),
    (SWIFT, {"extra": ("--wandb_api_key", "abcdef123456")}, "wandb_api_key looks like a secret", "log in"),
    (NPU, {"settings": ("$(id)=1",)}, "is no name of an option", "letters"),
    (NPU, {"settings": ("output_dir=/x",)}, "output_dir is the run's own folder", "--runs"),
    (
        NPU,
        {"settings": ("warmup_steps=900",)},
        "warmup_steps=900 is not below max_steps=200",
        "take warmup_steps below 200, or max_steps above 900, for instance --set warmup_steps=10",
    ),
    (
        NPU,
        {"settings": ("max_steps=10",)},
        "warmup_steps=20 is not below max_steps=10",
        "take warmup_steps below 10, or max_steps above 20",
    ),
    (
        NPU,
        {"settings": ("tensor_parallel_degree=3",)},
        "3 x pipeline_parallel_degree 4 x sharding_parallel_degree 1 = 12, which does not divide 16 processes",
        "these would do: tensor_parallel_degree 1, 2, 4",
    ),
    (
        NPU,
        {"settings": ("max_seq_len=0",)},
        "max_seq_len wants a whole number of at least 1, not '0'",
        "--set max_seq_len=8",
    ),
    (NPU, {"settings": ("max_seq_len=-5",)}, "max_seq_len wants a whole number of at least 1, not '-5'", "--set"),
    (NPU, {"settings": ("max_seq_len=8k",)}, "max_seq_len wants a whole number of at least 1, not '8k'", "--set"),
    (NPU, {"extra": ("--lora_rank", "8", "9")}, "lora_rank wants a whole number of at least 1, not '8 9'", "--set"),
    (
        NPU,
        {"settings": ("learning_rate=nan",)},
        "learning_rate wants a number above 0, not 'nan'",
        "learning_rate=1e-5",
    ),
    (NPU, {"settings": ("weight_decay=-1",)}, "weight_decay wants a number of at least 0, not '-1'", "--set"),
    (NPU, {"settings": ("adam_beta1=2",)}, "adam_beta1 wants a number from 0 to 1, not '2'", "--set adam_beta1=0.1"),
    (NPU, {"installed": ("paddleformers",)}, "not NAME=VERSION", "--installed"),
    (NPU, {"rank": 0}, "no place for --rank", "leave --rank out"),
    (NPU, {"nnodes": 2, "rank": 2}, "this node is one of 0 to 1", "once"),
    (NPU, {"nnodes": 2, "master": "127.0.0.1:9"}, "means each node itself", "reach"),
    (NPU, {"nnodes": 2, "master": "node-0:99999"}, "--master node-0:99999: ports are 1 to 65535", "for instance"),
    (NPU, {"nnodes": 2, "master": ":29500"}, "--master ':29500' is no address", "192.0.2.1"),
    (NPU, {"nnodes": 2, "master": "-x"}, "--master '-x' is no address", "192.0.2.1"),
    (NPU, {"nnodes": 2, "host": "a b"}, "--host 'a b' is no address", "192.0.2.1"),
    (NPU, {"nnodes": 2, "host": "node-1:29500"}, "--host node-1:29500 names a port", "alone"),
    (NPU, {"cards": 5}, "1 x 5 cards are 5, and tensor 4 x pipeline 4", "envcheck plan --cards 5 --search"),
    ({"model": "21b", "method": "lora", "node_role": "nvidia"}, {"rank": 1}, "this node is rank 0", "once"),
    ({"model": "21b", "method": "lora", "node_role": "nvidia"}, {"cards": 4}, "a part of 2 nodes of 8 cards", "leave"),
    ({"model": "qwen-7b", "method": "chat"}, {"nnodes": 2}, "names no cards", "leave"),
    ({"model": "qwen-7b", "method": "chat"}, {"data": Path("x")}, "no place for --data", "leave --data out"),
)


@pytest.mark.parametrize(("which", "more", "message", "step"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong(which: dict[str, Any], more: dict[str, Any], message: str, step: str) -> None:
    """What cannot be meant is one sentence and the next step, before anything is looked at."""
    with pytest.raises(UsageError) as caught:
        chosen(**which, **more)

    assert message in caught.value.message
    assert step in (caught.value.next_step or "")


def test_options_of_a_kind_are_options() -> None:
    """Each name of the table of kinds is one that an upstream has, and stands under one kind."""
    names = [name for of_kind in own_table(validate.KINDS_FILE).values() for name in of_kind]
    there = set().union(*(one.names for one in schema.lists()))

    assert set(names) <= there
    assert len(names) == len(set(names))


def test_every_value_of_a_recipe_is_of_its_kind() -> None:
    """What our recipes say is never refused."""
    for recipe in catalogue.load_all(None):
        for job in recipe.jobs:
            validate.values(rows(job.arguments))


def test_what_nobody_can_tell_is_a_note() -> None:
    """Of a version newer than the list, an unknown name reaches the training with a note and the nearest name."""
    _, job = chosen(**SWIFT, settings=("learning_rat=1",), installed=("ms-swift=4.99.0",))

    assert rows(job.arguments)["learning_rat"] == ("1",)
    assert "nobody could tell" in job.caution[-1]
    assert "learning_rate" in job.caution[-1]


def test_steps_and_degrees_follow() -> None:
    """What gates and planner read of a job is what its options say."""
    _, job = chosen(**NPU, settings=("max_steps=50", "tensor_parallel_degree=2", "pipeline_parallel_degree=2"))

    assert (job.steps["max"], job.parallel["tensor"], job.parallel["pipeline"]) == (50, 2, 2)
    assert set_steps(job, 40).steps["max"] == 40


def test_what_is_no_count_is_not_known() -> None:
    """-1, by which upstreams mean by epochs or as many as are left, and a share, leave no figure of the recipe's."""
    _, job = chosen(**NPU, settings=("max_steps=-1", "save_steps=0.1", "sharding_parallel_degree=-1", "eval_steps=7"))

    assert job.steps.keys() & {"max", "save", "eval"} == {"eval"}
    assert job.steps["eval"] == 7
    assert "sharding" not in job.parallel


def test_own_model_is_looked_for() -> None:
    """A model of one's own is the one whose config.json must be there."""
    recipe, job = chosen(**NPU, settings=("model_name_or_path=/models/mine",))
    made = render(recipe, job)

    assert "/models/mine/config.json" in made.requires
    assert rows(made.arguments)["model_name_or_path"] == ("/models/mine",)


def test_own_data() -> None:
    """--data brings what belongs to it, and the recipe's own file is no longer asked for."""
    recipe, job = chosen(**NPU, data=Path("/my/data.jsonl"))
    made = render(recipe, job)

    assert rows(made.arguments)["train_dataset_path"] == ("/my/data.jsonl",)
    assert rows(made.arguments)["train_dataset_prob"] == ("1.0",)
    assert "/my/data.jsonl" in made.requires
    assert "examples/data/sft-train.jsonl" not in (*made.requires, *made.data)
    assert "examples/data/sft-eval.jsonl" in made.requires


def test_own_data_of_llamafactory() -> None:
    """LLaMA-Factory is told of a file by a dataset_info.json in the run's folder, whatever the file is called."""
    recipe, job = chosen(model="qwen-7b", method="lora", framework="llamafactory", data=Path('/my/"data".json'))
    made = render(recipe, job, {"output": "/run/output"})
    text = made.files["/run/config/dataset_info.json"]

    assert json.loads(text) == {"own": {"file_name": '/my/"data".json'}}
    assert rows(made.arguments)["dataset_dir"] == ("/run/config",)
    assert rows(made.arguments)["dataset"] == ("own",)
    assert render(*chosen(model="qwen-7b", method="lora", framework="llamafactory")).files == {}


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
    """Each launcher is told what it must know where there are other nodes."""
    recipe, job = chosen(**which, nnodes=nodes)
    made = render(recipe, job).launcher
    first = made.index(words[0])

    assert list(made[first : first + len(words)]) == words
    assert job.parallel["data"] == nodes * (job.processes if "tensor" not in job.parallel else 1)


def test_several_cards_of_swift() -> None:
    """ms-swift starts a process for each card only where a variable says so, and nodes are variables as well."""
    _, one = chosen(**SWIFT, cards=1)
    _, eight = chosen(**SWIFT, cards=8, nnodes=2)

    assert "NPROC_PER_NODE" not in one.environment
    assert eight.environment["NPROC_PER_NODE"] == "{processes}"
    assert {"NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"} <= set(eight.environment)


def test_nodes_fill_the_blanks() -> None:
    """--rank, --master, --host and --port stand in the command, and nothing is left to be said of other nodes."""
    wish = TrainRequest(model="300b", method="sft", rank=3, master="192.0.2.1", host="192.0.2.4", port=99)
    recipe, job = choose_job(wish)
    made = render(recipe, job, fill_values(wish, recipe, None))
    said = rows(made.launcher[3:-1])

    assert (said["rank"], said["master"], said["host"]) == (("3",), ("192.0.2.1:99",), ("192.0.2.4",))
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
    """The master's address may bring its port; an IPv6 address keeps its colons."""
    wish = TrainRequest(model="300b", method="sft", master=text)
    recipe, job = choose_job(wish)
    made = render(recipe, job, fill_values(wish, recipe, None))

    assert rows(made.launcher[3:-1])["master"] == (f"{host}:{port}",)


def test_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line: --set several times, and options of the training behind --."""
    asked = ["train", "--recipe", "ernie-21b-npu", "--method", "lora", "--dry-run", "--json", "--set", "seed=7"]
    with pytest.raises(SystemExit) as caught:
        main.entry([*asked, "--set", "lora_rank=8", "--", "--lora_alpha", "-1", "--amp_custom_white_list", "a b", "c"])
    out, err = capsys.readouterr()
    assert caught.value.code == 0, err
    said = rows(json.loads(out)["command"][3:])

    assert (said["seed"], said["lora_rank"], said["lora_alpha"]) == (("7",), ("8",), ("-1",))
    assert said["amp_custom_white_list"] == ("a b", "c")


words = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(("--seed", "--seed=1", "--")), max_size=6
)


@for_all(words, words)
def test_any_words(pairs: list[str], extra: list[str]) -> None:
    """Whatever is typed is read or refused with a sentence."""
    try:
        found = user_options.read(pairs, extra)
    except UsageError as err:
        assert err.message and err.next_step
    else:
        assert all(name.replace("-", "_").isidentifier() for name in found)


names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
values = st.lists(st.from_regex(r"[a-z0-9 =.]{0,5}", fullmatch=True), max_size=3)


@for_all(st.dictionaries(names, values))
def test_rows_and_back(found: dict[str, list[str]]) -> None:
    """Arguments are the same after a change that changes nothing."""
    flat = arguments(found)

    assert merged(flat, {}) == flat
    assert rows(flat) == {name: tuple(values) for name, values in found.items()}


def test_unknown_version_has_no_list() -> None:
    """For a version that nobody read, nothing is refused: cannot tell."""
    recipe = catalogue.by_name(catalogue.load_all(), "qwen-7b-npu-swift")

    assert schema.of(("swift", "sft"), recipe, {"ms-swift": "1.0"}) is None
    assert schema.of(("swift", "sft"), recipe, {"ms-swift": "no version"}) is None
    assert schema.of(("swift", "sft"), replace(recipe, packages=()), {}) is not None


@pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
def test_words_mean_the_same_job(recipe: Recipe, job: RecipeJob) -> None:
    """The options that a remedy pastes lead to the same job again."""
    said = iter(shlex.split(format_job_options(TrainRequest(), recipe, job)))
    again = {option.removeprefix("--"): value for option, value in zip(said, said, strict=True)}

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
    """The tool that made the lists takes what a parser takes: inherited and imported fields, none fixed or private."""
    (tmp_path / "a.py").write_text(SOURCES)
    (tmp_path / "b.py").write_text(OTHER)
    (tmp_path / "c.py").write_text(USER)
    (tmp_path / "broken.py").write_text("class Args(:\n")
    tool = Path(__file__).parent / "upstream_options.py"
    said = {
        name: subprocess.run([sys.executable, str(tool), str(tmp_path), name], capture_output=True, text=True)
        for name in ("Args", "c:Mine", "b:Theirs", "None")
    }
    gone = said["None"]

    assert said["Args"].stdout.splitlines() == ["fast on", "loss", "old", "rate", "slow"]
    assert said["c:Mine"].stdout.splitlines() == ["fast on", "loss", "mine on", "old", "rate", "slow"]
    assert said["b:Theirs"].stdout.splitlines() == ["own"]
    assert (gone.returncode, "no class is named None" in gone.stderr) == (1, True)
