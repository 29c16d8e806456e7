"""Recipes: ours load and hold none of the published documents' traps; anybody's are read or refused by name."""

from __future__ import annotations

import copy
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck import cli
from envcheck.commands.recipes import recipes as recipes_command
from envcheck.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.recipe import Job, Recipe, wanted
from installers.recipes.recipe_notes import leaves
from installers.recipes.recipe_rules import TOKENS, check, options
from installers.recipes.recipes_file import SIZE_LIMIT, from_table, load, parse
from launch.command import Command, render

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS = catalogue.load_all()
OFFERS = [(recipe, job) for recipe in OURS for job in recipe.jobs]
NAMES = ["-".join(filter(None, (recipe.name, job.method, job.variant, job.role))) for recipe, job in OFFERS]
ERNIE = [offer for offer in OFFERS if offer[0].name.startswith("ernie-")]
each_job = pytest.mark.parametrize(("recipe", "job"), OFFERS, ids=NAMES)
each_recipe = pytest.mark.parametrize("recipe", OURS, ids=[recipe.name for recipe in OURS])

# From the models' own configurations: layers, query heads, key/value heads.
MODELS = {"ernie-300b": (54, 64, 8), "ernie-21b": (28, 20, 4), "ernie-0.3b": (18, 16, 2)}
JOBS = {
    "ernie-300b-npu": {("sft", 8, 16), ("sft.10x16", 10, 16), ("lora", 1, 16), ("dpo", 8, 16), ("dpo.lora", 1, 16)},
    "ernie-21b-npu": {("lora", 1, 16), ("sft", 1, 16), ("dpo", 1, 16)},
    "ernie-21b-iluvatar": {("lora", 1, 16), ("sft", 1, 16), ("dpo.lora", 1, 16)},
    "ernie-21b-nvidia": {("lora", 1, 8), ("sft", 1, 8), ("dpo", 1, 8)},
    "ernie-21b-hetero": {("lora", 2, 8)},
    **{f"ernie-0.3b-{d}": {(m, 1, 1) for m in ("lora", "sft", "dpo")} for d in ("npu", "iluvatar", "nvidia")},
    "qwen-7b-npu-llamafactory": {("lora", 1, 1), ("chat", 1, 1)},
    "qwen-7b-npu8-llamafactory": {
        *(("lora.ddp", 1, 4), ("lora.zero2", 1, 4), ("lora.zero3", 1, 4), ("dpo.ddp", 1, 4), ("sft.full", 1, 8)),
    },
    "qwen-7b-npu-swift": {
        *(("lora", 1, 1), ("lora.ddp", 1, 4), ("lora.zero2", 1, 4), ("lora.zero3", 1, 4), ("sft.full", 1, 8)),
        *(("dpo", 1, 1), ("infer", 1, 1), ("infer.base", 1, 1)),
    },
    **{f"tiny-{device}": {("lora", 1, 2), ("chat", 1, 1)} for device in ("cpu", "npu", "iluvatar")},
    "tiny-nvidia": {("lora", 1, 1), ("chat", 1, 1)},
}


def values_of(arguments: tuple[str, ...]) -> dict[str, str]:
    """Each option with the argument that follows it."""
    after = (*arguments[1:], "")
    return {a: ("" if b.startswith("--") else b) for a, b in zip(arguments, after, strict=True) if a.startswith("--")}


def test_systems() -> None:
    """Every system of the published documents is there, with its jobs on as many nodes and cards."""
    found = {r.name: {(j.method + (j.variant and f".{j.variant}"), j.nodes, j.processes) for j in r.jobs} for r in OURS}

    assert found == JOBS


@each_recipe
def test_numbers_have_sources(recipe: Recipe) -> None:
    """Whatever a recipe says with a digit in it, it says where from; and with a trap's value, why it is one."""
    said = [(leaf, json.dumps(leaf.value)) for leaf in leaves(recipe)]

    assert [leaf.key for leaf, text in said if re.search(r"\d", text) and not leaf.note.source] == []
    assert [leaf.key for leaf, _ in said if leaf.note.seed_value is not None and not leaf.note.reason] == []


@each_recipe
def test_short_source_names_are_explained(recipe: Recipe) -> None:
    """Who reads "seed 003:28" finds in the same recipe which document that is."""
    sources = " ".join(note.source for note in recipe.notes.values())

    assert set(re.findall(r"\bseed \d{3}\b", sources)) <= set(recipe.documents)


@each_job
def test_no_option_twice(recipe: Recipe, job: Job) -> None:
    """Each option of a launcher and of its program stands once: the last would win silently."""
    made = render(recipe, job)

    for part in (made.launcher, made.arguments):
        assert [name for name, number in Counter(options(part)).items() if number > 1] == []


@each_job
def test_wanted_fits_the_job(recipe: Recipe, job: Job) -> None:
    """The checks are asked for as many devices as there are processes, and never for more shared than host memory."""
    asked = wanted(recipe, job)

    assert asked.cards is None or asked.cards >= job.processes
    assert asked.device == catalogue.device_of((recipe, job))
    assert recipe.device == "cpu" or asked.driver_minimum
    assert recipe.device == "cpu" or (asked.memory_gib or 0) > 0


@pytest.mark.parametrize(("recipe", "job"), ERNIE, ids=[n for n in NAMES if n.startswith("ernie-")])
def test_layout(recipe: Recipe, job: Job) -> None:
    """The degrees multiply to the world, heads and sequence divide by the tensor degree, options say what data say."""
    _, heads, key_heads = MODELS[recipe.name.rpartition("-")[0]]
    said = values_of(job.arguments)
    tensor = job.parallel["tensor"]

    assert math.prod(job.parallel.values()) == job.nodes * job.processes
    assert (heads % tensor, key_heads % tensor, int(said["--max_seq_len"]) % tensor) == (0, 0, 0)
    assert said["--tensor_parallel_degree"] == str(tensor)
    assert said["--pipeline_parallel_degree"] == str(job.parallel["pipeline"])
    assert said["--sharding_parallel_degree"] == str(job.parallel["sharding"])


@pytest.mark.parametrize(("recipe", "job"), ERNIE, ids=[n for n in NAMES if n.startswith("ernie-")])
def test_steps(recipe: Recipe, job: Job) -> None:
    """Warm-up ends before the job does, something is saved, and the options say what the data say."""
    said = values_of(job.arguments)
    steps = job.steps

    assert steps["warmup"] < steps["max"]
    assert steps["save"] <= steps["max"]
    assert steps.get("eval", 0) <= steps["max"]
    for name, option in (("max", "--max_steps"), ("warmup", "--warmup_steps"), ("save", "--save_steps")):
        assert said[option] == str(steps[name])
    assert ("--do_eval" in said) == (said["--evaluation_strategy"] == "steps") == ("--eval_dataset_path" in said)


@pytest.mark.parametrize(("recipe", "job"), ERNIE, ids=[n for n in NAMES if n.startswith("ernie-")])
def test_data_sets_match(recipe: Recipe, job: Job) -> None:
    """As many probabilities and kinds as files, summing to one; and every file is asked for before the start."""
    said = values_of(job.arguments)
    for part in ("train", "eval") if "--eval_dataset_path" in said else ("train",):
        files, chances, kinds = (said[f"--{part}_dataset_{what}"].split(",") for what in ("path", "prob", "type"))

        assert len(files) == len(chances) == len(kinds)
        assert math.isclose(sum(map(float, chances)), 1.0)
        assert set(files) <= set(job.requires)


@each_job
def test_nodes_are_told_apart(recipe: Recipe, job: Job) -> None:
    """More than one node: rank, own address and the master are said and are nobody's; one node: none of them."""
    said = values_of(job.launcher)

    if job.nodes == 1:
        assert not {"--master", "--rank", "--host"} & set(said)
    else:
        assert (said["--master"], said["--rank"], said["--host"]) == ("{master}:{port}", "{rank}", "{host}")
        assert {"master", "host"} <= set(render(recipe, job).missing)
        assert "rank" in render(recipe, job).missing or job.rank is not None


def _everything(made: Command) -> str:
    return json.dumps([made.argv, dict(made.environment), made.requires, made.workdir, made.scripts, made.container])


TRAPS: dict[str, Callable[[Recipe, Command], bool]] = {
    "a flag that does not exist": lambda r, c: "FLAGS_allocator_strategy_kernel" not in c.environment,
    "nothing is removed": lambda r, c: "rm -rf" not in _everything(c),
    "somebody's addresses": lambda r, c: not re.search(r"141\.61|10\.1\.15|ens22f0|ens11f0np0|tianshu", _everything(c)),
    "the clone's name": lambda r, c: "ERRNIEKit" not in _everything(c),
    "a cut-off model name": lambda r, c: not re.search(r"-Paddl\b|ERNIE-4\.5-Lite", _everything(c)),
    "an image by a moving tag": lambda r, c: (
        not c.container or (":" in c.container[-2] and ":latest" not in c.container[-2])
    ),
    "a tag taken for a repository": lambda r, c: "device/cann80RC1" not in _everything(c),
    "the old options of ms-swift": lambda r, c: (
        not {"--sft_type", "--model_type", "--ckpt_dir", "--load_dataset_config"} & set(c.argv)
        and not {"blossom-math-zh", "default-zero2", "default-zero3"} & set(c.argv)
    ),
    "abbreviated options": lambda r, c: "--lr_scheduler" not in c.argv,
    "a custom device without its collectives": lambda r, c: (
        "paddle.distributed.launch" not in c.argv
        or c.environment.get("PADDLE_XCCL_BACKEND")
        == {"npu": "npu", "iluvatar_gpu": "iluvatar_gpu"}.get(values_of(c.arguments)["--device"])
    ),
    "left-over variables of the launcher": lambda r, c: (
        "paddle.distributed.launch" not in c.argv
        or {"PADDLE_TRAINER_ID", "PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_RANK", "PADDLE_TRAINER_ENDPOINTS"}
        <= set(c.unset)
    ),
    "toolkit and ATB, both": lambda r, c: (
        r.framework != "erniekit"
        or r.device != "npu"
        or [s.split("/")[-2] for s in c.scripts] == ["ascend-toolkit", "atb"]
    ),
    "no CANN on the path": lambda r, c: r.device != "npu" or len(c.scripts) > 0,
    "clean lists of visible cards": lambda r, c: all(
        re.fullmatch(r"\d+(,\d+)*", text) and [int(n) for n in text.split(",")] == list(range(text.count(",") + 1))
        for name, text in c.environment.items()
        if name.endswith("VISIBLE_DEVICES")
    ),
    "a preloaded library that must exist": lambda r, c: c.environment.get("LD_PRELOAD", "") in ("", *c.requires),
    "fp16 on a card that computes bf16": lambda r, c: "--fp16" not in c.argv,
    "the data folder of LLaMA-Factory hidden": lambda r, c: "target=/app/data" not in _everything(c),
    "no cards for the launcher on the CPU": lambda r, c: (
        r.device != "cpu" or not {"--npus", "--gpus", "--xpus", "--devices", "--master"} & set(c.argv)
    ),
    "somebody's package mirror": lambda r, c: all(
        p.index == "" or p.index.startswith("https://www.paddlepaddle.org.cn/packages/stable/") for p in r.packages
    ),
    "an alpha with a release": lambda r, c: all("3.1.0a0" not in p.specifier for p in r.packages),
    "numpy that breaks paddle": lambda r, c: all(
        p.specifier in ("==1.26.4", ">=1.21,<2.4") for p in r.packages if p.name == "numpy"
    ),
    "paddleformers that renamed the options": lambda r, c: all(
        p.specifier == ">=0.3,<0.4" for p in r.packages if p.name == "paddleformers"
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
@each_job
def test_trap(recipe: Recipe, job: Job, trap: str) -> None:
    """No rendered job holds this error of the published documents."""
    assert TRAPS[trap](recipe, render(recipe, job))


SMALL = """
name = "mine"
title = "a set-up of my own"
device = "cpu"
framework = "envcheck"
models = ["mine"]
[hardware]
product = "a laptop"
cards = { value = 2, source = "counted", seed_value = 3, reason = "one is broken" }
[[packages]]
name = "numpy"
specifier = "<2.4"
[[jobs]]
method = "lora"
title = "a job"
launcher = ["{python}", "train.py"]
arguments = ["--steps", "5"]
steps = { max = 5 }
"""


def test_annotated_value() -> None:
    """A value may stand in a table with its source, what was published instead, and why."""
    recipe = parse(SMALL, "mine.toml")
    note = recipe.notes["hardware.cards"]

    assert (recipe.hardware.cards, note.source, note.seed_value, note.reason) == (2, "counted", 3, "one is broken")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "mine"\n', "", ["name", "missing", "text"]),
        ("cards = {", "crads = {", ["hardware.crads", "no such key", "cards"]),
        ("value = 2", 'value = "two"', ["hardware.cards", "a whole number", "two"]),
        ("value = 2", "value = true", ["hardware.cards", "a whole number"]),
        ("value = 2", "value = -2", ["hardware.cards", "from 0 up"]),
        ("value = 2", "value = 1.5", ["hardware.cards", "a whole number"]),
        ("seed_value", "seedvalue", ["hardware.cards.seedvalue", "seed_value"]),
        ('reason = "one is broken"', "reason = 1", ["hardware.cards.reason", "text"]),
        ("seed_value = 3", "seed_value = [3]", ["hardware.cards.seed_value"]),
        ('models = ["mine"]', 'models = "mine"', ["models", "a list of texts"]),
        ('models = ["mine"]', "models = []", ["models", "at least one"]),
        ('models = ["mine"]', 'models = ["mine", 7]', ["models[1]", "text", "7"]),
        ('device = "cpu"', 'device = "gpu"', ["device", "npu, iluvatar, nvidia, cpu"]),
        ('name = "mine"', 'name = "../mine"', ["name", "lower-case"]),
        ('name = "mine"', 'name = "a\\u001b[31m"', ["name", "printable"]),
        ("[hardware]\n", '"\\u001b[31m" = 1\n[hardware]\n', ["\\x1b[31m", "no such key"]),
        ("[hardware]", "[hardware.more]", ["hardware.more", "no such key"]),
        ("[[jobs]]", "[jobs]", ["jobs", "a list of tables"]),
        ('"{python}", "train.py"', "", ["jobs.lora.launcher", "at least"]),
        ("train.py", "{trian}.py", ["jobs.lora.launcher", "{trian}"]),
        ('"--steps", "5"', '"--steps", "5", "--steps=6"', ["jobs.lora.arguments", "--steps", "2 times"]),
        ("steps = { max = 5 }", "steps = { max = 5, warmup = 20 }", ["jobs.lora.steps.warmup", "20", "5"]),
        ("steps = {", "parallel = { tensor = 3 }\nsteps = {", ["jobs.lora.parallel", "3"]),
        ("steps = {", "nodes = 0\nsteps = {", ["jobs.lora", "nodes"]),
        ("steps = {", 'environment = { "A;B" = "1" }\nsteps = {', ["jobs.lora.environment", "A;B"]),
        ("<2.4", "about 2", ["packages.numpy.specifier", "about 2"]),
        ('name = "numpy"', 'name = "--index-url=x"', ["packages", "no name of a package"]),
        ("<2.4", '<2.4"\nindex = "http://somewhere', ["packages.numpy.index", "https"]),
        ('title = "a job"', 'title = "a\\njob"', ["jobs.lora.title", "one line"]),
        ("[hardware]", "[hardware", ["not TOML"]),
        ("value = 2", "value = " + "9" * 5000, []),
        ("value = 2", "value = 0x" + "f" * 5000, ["hardware.cards", "20000 bits"]),
        ("value = 2", "value = inf", ["hardware.cards", "inf"]),
        ("value = 2", "value = " + "[" * 3000, ["not TOML"]),
    ],
)
def test_malformed(old: str, new: str, words: list[str], tmp_path: Path) -> None:
    """A recipe with an error is refused in a sentence that names the file, the key, and what was expected."""
    file = tmp_path / "mine.toml"
    assert old in SMALL
    file.write_text(SMALL.replace(old, new, 1))

    with pytest.raises(UsageError) as caught:
        load(file)

    said = f"{caught.value.message} {caught.value.next_step}"
    assert [word for word in [str(file), *words] if word not in said] == []
    assert len(said) < 1000 + 2 * len(str(file))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe", "not UTF-8"), (b"# " + b"x" * SIZE_LIMIT, "larger than"), (b"", "missing"), (b"\0", "not TOML")],
)
def test_unreadable_file(content: bytes, words: str, tmp_path: Path) -> None:
    """What is no text, or far too long, or empty, is refused as such."""
    (tmp_path / "x.toml").write_bytes(content)

    with pytest.raises(UsageError, match=words):
        catalogue.load_all(tmp_path)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _paths(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*so_far, key) for key, _ in inner] + [p for key, v in inner for p in _paths(v, (*so_far, key))]


TABLES = [tomllib.loads(Path(recipe.file).read_text()) for recipe in OURS]


@settings(deadline=None, max_examples=200)  # the machine that runs this may be busy
@given(data=st.data(), table=st.sampled_from(TABLES), other=junk)
def test_any_value_anywhere(data: st.DataObject, table: dict[str, Any], other: Any) -> None:
    """Whatever stands in the place of whatever value: the recipe is read, or refused with the file's name."""
    changed = copy.deepcopy(table)
    path = data.draw(st.sampled_from(_paths(table)))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = other

    try:
        recipe = from_table(changed, "theirs.toml")
        check(recipe)
    except UsageError as err:
        assert err.message.startswith("theirs.toml: ")
        assert err.message.isprintable()
    else:
        assert [render(recipe, job) for job in recipe.jobs]


def test_own_recipe_wins(tmp_path: Path) -> None:
    """A recipe of the user's with the name of ours is taken, and is said to be theirs."""
    (tmp_path / "a.toml").write_text(SMALL.replace('"mine"', '"tiny-cpu"', 1))
    known = catalogue.load_all(tmp_path)
    listed = CliRunner().invoke(recipes_command, ["--recipes", str(tmp_path)]).output

    assert catalogue.by_name(known, "tiny-cpu").title == "a set-up of my own"
    assert len(known) == len(OURS)
    assert "tiny-cpu (your own)" in listed
    assert listed.count("(your own)") == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder.rmdir(), "not a folder"),
        (lambda folder: None, "no recipe"),
        (lambda folder: [(folder / n).write_text(SMALL) for n in ("a.toml", "b.toml")], "two recipes are named mine"),
        (lambda folder: (folder / "a.toml").mkdir(), "not a file"),
    ],
)
def test_folder(make: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    """A folder that is none, or holds nothing, or the same name twice, is refused in words."""
    folder = tmp_path / "mine"
    folder.mkdir()
    make(folder)

    with pytest.raises(UsageError, match=words):
        catalogue.load_all(folder)


@each_recipe
def test_show(recipe: Recipe) -> None:
    """`recipes show` prints every trap, every published value beside ours, and every job's command."""
    page = " ".join(CliRunner().invoke(recipes_command, ["show", recipe.name]).output.split())

    for note in recipe.notes.values():
        assert note.seed_value is None or note.reason in page
    assert all(" ".join(trap.seed_value.split()) in page for trap in recipe.traps)
    assert all(f"jobs.{job.method}" in page for job in recipe.jobs)


def test_shared_source_is_said_once() -> None:
    """Where a whole table has one source it stands at the heading, and not on each line."""
    page = CliRunner().invoke(recipes_command, ["show", "tiny-npu"]).output
    heading = next(line for line in page.splitlines() if line.startswith("jobs.lora"))

    assert heading == "jobs.lora  [envcheck: its own program]"
    assert page.count("[envcheck: its own program]") < 7  # a heading for each of the two jobs


@pytest.mark.parametrize("argv", ([], ["show", "ernie-300b-npu"]))
def test_narrow_terminal(argv: list[str]) -> None:
    """On 60 columns every line fits, but for words that are longer themselves."""
    lines = CliRunner(env={"COLUMNS": "60"}).invoke(recipes_command, argv).output.splitlines()

    assert [x for x in lines if len(x) > 60 and max(map(len, x.split())) < 45 and not x.startswith("file: ")] == []


def test_json() -> None:
    """--json is one document with a schema number, the same for all recipes and for one."""
    every = json.loads(CliRunner().invoke(recipes_command, ["--json"]).output)
    one = json.loads(CliRunner().invoke(recipes_command, ["show", "tiny-cpu", "--json"]).output)

    assert (every["schema"], one["schema"]) == (1, 1)
    assert one["recipes"][0] in every["recipes"]


def test_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown name is wrong usage, answered with the names that there are."""
    with pytest.raises(SystemExit) as caught:
        cli.entry(["recipes", "show", "tiny"])

    assert caught.value.code == 2
    assert "tiny-cpu" in capsys.readouterr().err


def test_documented() -> None:
    """docs/recipes.md names every recipe, every job, and every token."""
    page = (Path(__file__).parent.parent / "docs" / "recipes.md").read_text()
    jobs = {word for _, job in OFFERS for word in (job.method, job.variant) if word}
    words = {*(recipe.name for recipe in OURS), *jobs, *(f"{{{t}}}" for t in TOKENS)}

    assert sorted(word for word in words if f"`{word}`" not in page) == []
