"""Built-in recipes load and avoid the errors of the published documents; any recipe is loaded or refused by name."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck.cli import main
from envcheck.cli.commands.recipes import recipes as recipes_command
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import TrainingCommand, render_command
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob, derive_requirements, list_driver_minimums
from installers.recipes.validation import TOKENS, list_options
from installers.recipes.value_notes import list_values

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
    "ernie-21b-nvidia-container": {("lora", 1, 8), ("sft", 1, 8), ("dpo", 1, 8)},
    "ernie-0.3b-nvidia-container": {(m, 1, 1) for m in ("lora", "sft", "dpo")},
    "ernie-21b-hetero-container": {("lora", 2, 8)},
    **{f"ernie-0.3b-{d}": {(m, 1, 1) for m in ("lora", "sft", "dpo")} for d in ("npu", "iluvatar", "nvidia")},
    "qwen-7b-npu-llamafactory": {("lora", 1, 1), ("chat", 1, 1)},
    "qwen-7b-npu8-llamafactory": {
        *(("lora.ddp", 1, 4), ("lora.zero2", 1, 4), ("lora.zero3", 1, 4), ("dpo.ddp", 1, 4), ("sft.full", 1, 8)),
        *(("lora.nodes", 2, 8), ("sft.nodes", 2, 8)),
    },
    "qwen-14b-npu-swift": {
        *(("lora", 1, 1), ("lora.ddp", 1, 8), ("lora.zero2", 1, 8), ("lora.zero3", 1, 8)),
        *(("infer", 1, 1), ("infer.base", 1, 1)),
    },
    "qwen-7b-npu-swift": {
        *(("lora", 1, 1), ("lora.ddp", 1, 4), ("lora.zero2", 1, 4), ("lora.zero3", 1, 4), ("sft.full", 1, 8)),
        *(("dpo", 1, 1), ("infer", 1, 1), ("infer.base", 1, 1), ("lora.nodes", 2, 8), ("sft.nodes", 2, 8)),
    },
    **{f"tiny-{device}": {("lora", 1, 2), ("chat", 1, 1)} for device in ("cpu", "npu", "iluvatar")},
    "tiny-nvidia": {("lora", 1, 1), ("chat", 1, 1)},
    "ernie-300b-xpu": {("sft", 12, 8), ("lora", 2, 8)},
    "ernie-21b-xpu": {("sft", 1, 8), ("lora", 1, 4)},
    "ernie-0.3b-xpu": {("sft", 1, 1), ("lora", 1, 1)},
    "tiny-xpu": {("lora", 1, 2), ("chat", 1, 1)},
}


def read_option_values(arguments: tuple[str, ...]) -> dict[str, str]:
    """Return each option with the argument after it."""
    after = (*arguments[1:], "")
    return {a: ("" if b.startswith("--") else b) for a, b in zip(arguments, after, strict=True) if a.startswith("--")}


def test_systems() -> None:
    """Every system of the published documents is there, with its jobs on as many nodes and cards."""
    found = {r.name: {(j.method + (j.variant and f".{j.variant}"), j.nodes, j.processes) for j in r.jobs} for r in OURS}

    assert found == JOBS


@each_recipe
def test_numbers_have_sources(recipe: Recipe) -> None:
    """Every value with a digit has a source; a value with a published error has a reason."""
    said = [(leaf, json.dumps(leaf.value)) for leaf in list_values(recipe)]

    assert [leaf.key for leaf, text in said if re.search(r"\d", text) and not leaf.note.source] == []
    assert [leaf.key for leaf, _ in said if leaf.note.published is not None and not leaf.note.reason] == []


@each_recipe
def test_short_source_names_are_explained(recipe: Recipe) -> None:
    """Every guide that a source names, and the words tested and computed, are explained in the recipe's documents."""
    sources = "; ".join([*(note.source for note in recipe.notes.values()), *(trap.where for trap in recipe.traps)])
    named = re.findall(r"[\w-]+ (?:NPU|Iluvatar|XPU|Paddle) guide\b|\b(?:tested|computed)(?=: )", sources)

    assert set(named) <= set(recipe.documents)
    assert not re.search(r"\bseed \d", sources)


@each_job
def test_no_option_twice(recipe: Recipe, job: RecipeJob) -> None:
    """Each option of a launcher and its program occurs once: the last one would silently win."""
    made = render_command(recipe, job)

    for part in (made.launcher, made.arguments):
        assert [name for name, number in Counter(list_options(part)).items() if number > 1] == []


@each_job
def test_wanted_fits_the_job(recipe: Recipe, job: RecipeJob) -> None:
    """As many devices are required as there are processes, and no more shared than host memory."""
    asked = derive_requirements(recipe, job)

    assert asked.cards is None or asked.cards >= job.processes
    assert asked.device == catalogue.job_device((recipe, job))
    assert recipe.device == "cpu" or asked.driver_minimum
    assert recipe.device == "cpu" or (asked.memory_gib or 0) > 0


@each_job
def test_drivers_of_a_device(recipe: Recipe, job: RecipeJob) -> None:
    """What the jobs on a device require of its driver includes what each of them requires; other devices need none."""
    asked = derive_requirements(recipe, job)

    assert asked.driver_minimum in (list_driver_minimums(recipe, asked.device) or [None])
    assert list_driver_minimums(recipe, "none") == []


def test_drivers_of_a_mixed_job() -> None:
    """A recipe for several kinds of devices has a minimum for each, from its own jobs."""
    mixed = catalogue.find_recipe(catalogue.load_all(), "ernie-21b-hetero")
    minimums = {device: list_driver_minimums(mixed, device) for device in ("nvidia", "iluvatar")}

    assert minimums == {"nvidia": ["535.171"], "iluvatar": ["4.3.0"]}


@pytest.mark.parametrize(("recipe", "job"), ERNIE, ids=[n for n in NAMES if n.startswith("ernie-")])
def test_layout(recipe: Recipe, job: RecipeJob) -> None:
    """The degrees multiply to the world size, the tensor degree divides the heads, options match the values."""
    _, heads, key_heads = MODELS["-".join(recipe.name.split("-")[:2])]
    said = read_option_values(job.arguments)
    tensor = job.parallel["tensor"]

    assert math.prod(job.parallel.values()) == job.nodes * job.processes
    assert (heads % tensor, key_heads % tensor, int(said["--max_seq_len"]) % tensor) == (0, 0, 0)
    assert said["--tensor_parallel_degree"] == str(tensor)
    assert said["--pipeline_parallel_degree"] == str(job.parallel["pipeline"])
    assert said["--sharding_parallel_degree"] == str(job.parallel["sharding"])


@pytest.mark.parametrize(("recipe", "job"), ERNIE, ids=[n for n in NAMES if n.startswith("ernie-")])
def test_steps(recipe: Recipe, job: RecipeJob) -> None:
    """Warm-up ends before the job, something is saved, and the options match the values."""
    said = read_option_values(job.arguments)
    steps = job.steps

    assert steps["warmup"] < steps["max"]
    assert steps["save"] <= steps["max"]
    assert steps.get("eval", 0) <= steps["max"]
    for name, option in (("max", "--max_steps"), ("warmup", "--warmup_steps"), ("save", "--save_steps")):
        assert said[option] == str(steps[name])
    assert ("--do_eval" in said) == (said["--evaluation_strategy"] == "steps") == ("--eval_dataset_path" in said)


@pytest.mark.parametrize(("recipe", "job"), ERNIE, ids=[n for n in NAMES if n.startswith("ernie-")])
def test_data_sets_match(recipe: Recipe, job: RecipeJob) -> None:
    """There are as many probabilities and kinds as files, summing to one; every file is checked before the start."""
    said = read_option_values(job.arguments)
    for part in ("train", "eval") if "--eval_dataset_path" in said else ("train",):
        files, chances, kinds = (said[f"--{part}_dataset_{what}"].split(",") for what in ("path", "prob", "type"))

        assert len(files) == len(chances) == len(kinds)
        assert math.isclose(sum(map(float, chances)), 1.0)
        assert set(files) <= set(job.requires)


@each_job
def test_nodes_are_told_apart(recipe: Recipe, job: RecipeJob) -> None:
    """Jobs on several nodes set rank, own address and master and have no default; jobs on one node set none of them."""
    said = {**read_option_values(job.launcher), **job.environment}
    known = {"--master": "{master}:{port}", "--rank": "{rank}", "--host": "{host}"}  # paddle.distributed.launch
    torch = {"--master_addr": "{master}", "--master_port": "{port}", "--node_rank": "{rank}", "--nnodes": "{nodes}"}
    swift = {"MASTER_ADDR": "{master}", "MASTER_PORT": "{port}", "NODE_RANK": "{rank}", "NNODES": "{nodes}"}

    if job.nodes == 1:
        assert not {*known, *swift} & set(said)
    else:
        (own,) = (each for each in (known, torch, swift) if each.keys() <= said.keys())
        assert {name: said[name] for name in own} == own
        missing = set(render_command(recipe, job).missing)
        assert "master" in missing and missing & {"host", "interfaces"}
        assert "rank" in missing or job.rank is not None


def _dump_job(made: TrainingCommand) -> str:
    return json.dumps([made.argv, dict(made.environment), made.requires, made.workdir, made.scripts, made.container])


TRAPS: dict[str, Callable[[Recipe, TrainingCommand], bool]] = {
    "a flag that does not exist": lambda r, c: "FLAGS_allocator_strategy_kernel" not in c.environment,
    "nothing is removed": lambda r, c: "rm -rf" not in _dump_job(c),
    "somebody's addresses": lambda r, c: not re.search(r"141\.61|10\.1\.15|ens22f0|ens11f0np0|tianshu", _dump_job(c)),
    "the clone's name": lambda r, c: "ERRNIEKit" not in _dump_job(c),
    "a cut-off model name": lambda r, c: not re.search(r"-Paddl\b|ERNIE-4\.5-Lite", _dump_job(c)),
    "an image by a moving tag": lambda r, c: (
        not c.container or (":" in c.container[-2] and ":latest" not in c.container[-2])
    ),
    "a tag taken for a repository": lambda r, c: "device/cann80RC1" not in _dump_job(c),
    "the old options of ms-swift": lambda r, c: (
        not {"--sft_type", "--model_type", "--ckpt_dir", "--load_dataset_config"} & set(c.argv)
        and not {"blossom-math-zh", "default-zero2", "default-zero3"} & set(c.argv)
    ),
    "abbreviated options": lambda r, c: "--lr_scheduler" not in c.argv,
    "a custom device without its collectives": lambda r, c: (
        "paddle.distributed.launch" not in c.argv
        or c.environment.get("PADDLE_XCCL_BACKEND")
        == {"npu": "npu", "iluvatar_gpu": "iluvatar_gpu"}.get(read_option_values(c.arguments)["--device"])
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
    "the data folder of LLaMA-Factory hidden": lambda r, c: "target=/app/data" not in _dump_job(c),
    "no cards for the launcher on the CPU": lambda r, c: (
        r.device != "cpu" or not {"--npus", "--gpus", "--xpus", "--devices", "--master"} & set(c.argv)
    ),
    "somebody's package mirror": lambda r, c: all(
        p.index == "" or p.index.startswith("https://www.paddlepaddle.org.cn/packages/stable/") for p in r.packages
    ),
    "an alpha with a release": lambda r, c: all("3.1.0a0" not in p.specifier for p in r.packages),
    "numpy that breaks paddle": lambda r, c: all(
        p.specifier in ("==1.26.4", ">=1.21,<2.4", ">=1.21,<2") for p in r.packages if p.name == "numpy"
    ),
    "paddleformers that renamed the options": lambda r, c: all(
        p.specifier == ">=0.3,<0.4" for p in r.packages if p.name == "paddleformers"
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
@each_job
def test_trap(recipe: Recipe, job: RecipeJob, trap: str) -> None:
    """No rendered job has this error of the published documents."""
    assert TRAPS[trap](recipe, render_command(recipe, job))


@each_recipe
def test_show(recipe: Recipe) -> None:
    """`recipes show` prints every trap, every published value, and every job's command."""
    page = " ".join(CliRunner().invoke(recipes_command, ["show", recipe.name]).output.split())

    for note in recipe.notes.values():
        assert note.published is None or note.reason in page
    assert all(" ".join(trap.published.split()) in page for trap in recipe.traps)
    assert all(f"jobs.{job.method}" in page for job in recipe.jobs)


def test_shared_source_is_said_once() -> None:
    """A source that a whole table shares is in the heading, not on each line."""
    page = CliRunner().invoke(recipes_command, ["show", "tiny-npu"]).output
    heading = next(line for line in page.splitlines() if line.startswith("jobs.lora"))

    assert heading == "jobs.lora  [envcheck: its own program]"
    assert page.count("[envcheck: its own program]") < 7  # a heading for each of the two jobs


@pytest.mark.parametrize("argv", ([], ["show", "ernie-300b-npu"]))
def test_narrow_terminal(argv: list[str]) -> None:
    """On 60 columns every line fits, except for longer words."""
    lines = CliRunner(env={"COLUMNS": "60"}).invoke(recipes_command, argv).output.splitlines()

    assert [x for x in lines if len(x) > 60 and max(map(len, x.split())) < 45 and not x.startswith("file: ")] == []


def test_json() -> None:
    """--json prints one document with a schema number, for all recipes and for one."""
    every = json.loads(CliRunner().invoke(recipes_command, ["--json"]).output)
    one = json.loads(CliRunner().invoke(recipes_command, ["show", "tiny-cpu", "--json"]).output)

    assert (every["schema"], one["schema"]) == (SCHEMA_VERSION, SCHEMA_VERSION)
    assert one["recipes"][0] in every["recipes"]


def test_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown name is wrong usage, answered with the available names."""
    with pytest.raises(SystemExit) as caught:
        main.entry(["recipes", "show", "tiny"])

    assert caught.value.code == 2
    assert "tiny-cpu" in capsys.readouterr().err


def test_documented() -> None:
    """The reference of recipes names every recipe, job and placeholder."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "recipes.md").read_text()
    jobs = {word for _, job in OFFERS for word in (job.method, job.variant) if word}
    words = {*(recipe.name for recipe in OURS), *jobs, *(f"{{{t}}}" for t in TOKENS)}

    assert sorted(word for word in words if f"`{word}`" not in page) == []


def test_smoke_tests_run_on_plugins() -> None:
    """Paddle's plugins lack the kernels for strided tensors: every smoke test on one switches them off."""
    flags = {
        recipe.device: recipe.environment.get("FLAGS_use_stride_kernel") for recipe in OURS if catalogue.is_toy(recipe)
    }

    assert flags == {"cpu": None, "nvidia": None, "npu": "0", "iluvatar": "0", "xpu": "0"}


@each_recipe
def test_paddle_has_setuptools(recipe: Recipe) -> None:
    """Paddle imports setuptools without requiring it; new environments have none from Python 3.12 on."""
    names = {package.name for package in recipe.packages}
    admits_new = not recipe.python or Version("3.12.0") in SpecifierSet(recipe.python)

    assert not (admits_new and names & {"paddlepaddle", "paddlepaddle-gpu"}) or "setuptools" in names
