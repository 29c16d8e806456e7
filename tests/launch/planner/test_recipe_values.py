"""A recipe that the command names sets every value that the command does not, on whichever cards it is planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from envcheck.cli.commands.plan import plan
from envcheck.cli.planning import plan_actions

MODEL = (
    "num_layers=28,hidden_size=3584,num_attention_heads=28,intermediate_size=18944,vocab_size=152064,"
    "num_key_value_heads=4"
)
RECIPE = f"""
name = "own"
title = "bash run.sh"
device = "npu"
framework = "megatron"
models = ["28x3584"]
dimensions = "{MODEL}"
source = "run.sh"
own_environment = true

[hardware]
product = "any"

[[jobs]]
method = "pt"
title = "bash run.sh"
nodes = 1
cards = 8
processes = 8
PLACES
requires = ["run.sh"]
launcher = ["/usr/bin/bash", "run.sh"]
"""
WITH_DEGREES = """parallel = { tensor = 4, pipeline = 2, data = 1 }
plan = { tp = 4, pp = 2, seq_len = 4096, recompute = "none", sharding = "stage1", sequence_parallel = 0 }"""
WITHOUT_DEGREES = 'plan = { seq_len = 4096, recompute = "none", sharding = "stage1" }'
VALUES = ("framework", "sharding", "recompute", "seq_len", "sequence_parallel")
OF_RECIPE = ("megatron", "dist_opt", "none", 4096, False)


def plan_recipe(folder: Path, places: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """Return the job that the command plans."""
    (folder / "own.toml").write_text(RECIPE.replace("PLACES", places), encoding="utf-8")
    planned: list[Any] = []
    monkeypatch.setattr(plan_actions, "_plan_one_job", lambda _machine, job, *_: planned.append(job) or 0)
    done = CliRunner().invoke(plan, ["--recipe", "own", "--recipes", str(folder), *words])

    assert done.exception is None, done.exception
    return planned[0]


def list_values(job: Any) -> tuple[Any, ...]:
    return (job.framework.name, job.sharding, job.recompute.kind, job.seq_len, job.sequence_parallel)


@pytest.mark.parametrize(
    "words",
    (
        (),
        ("--device", "npu"),
        ("--device", "910b3"),
        ("--device", "910b3", "--cards", "16"),
        ("--cards", "16"),
        ("--device", "910b3", "--tp", "2"),
    ),
    ids=" ".join,
)
def test_values_of_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """Neither a card, nor a number of cards, nor another degree drops what the recipe sets."""
    job = plan_recipe(tmp_path, WITH_DEGREES, monkeypatch, *words)

    assert dict(zip(VALUES, list_values(job), strict=True)) == dict(zip(VALUES, OF_RECIPE, strict=True))
    assert job.layout.pp == 2
    assert any("from recipe own" in str(text) for text in job.assumed)


def test_values_without_degrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe without degrees keeps its values too; it says nothing of sequence parallelism."""
    job = plan_recipe(tmp_path, WITHOUT_DEGREES, monkeypatch, "--device", "910b3")

    assert list_values(job) == (*OF_RECIPE[:-1], None)


def test_sizes_stay_where_the_layout_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On cards that the recipe's degrees do not divide the layout is chosen, with the recipe's other values."""
    job = plan_recipe(tmp_path, WITH_DEGREES, monkeypatch, "--device", "910b3", "--cards", "6")

    assert (job.framework.name, job.recompute.kind, job.seq_len) == ("megatron", "none", 4096)
    assert job.layout.cards == 6
    assert any("values that no option sets: from recipe own" in str(text) for text in job.assumed)


def test_options_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option of the command replaces that value of the recipe only."""
    words = ("--device", "910b3", "--seq-len", "1024", "--sequence-parallel")
    job = plan_recipe(tmp_path, WITH_DEGREES, monkeypatch, *words)

    assert list_values(job) == ("megatron", "dist_opt", "none", 1024, True)


def test_the_printed_options_give_the_same_plan(tmp_path: Path) -> None:
    """The command with the options of the printed layout plans the same memory."""
    (tmp_path / "own.toml").write_text(RECIPE.replace("PLACES", WITH_DEGREES), encoding="utf-8")
    words = ["--recipe", "own", "--recipes", str(tmp_path), "--device", "910b3", "--json"]
    layout = ["--tp", "4", "--pp", "2", "--sharding", "stage1", "--recompute", "none", "--seq-len", "4096"]
    one, two = (json.loads(CliRunner().invoke(plan, [*words, *more]).stdout) for more in ((), layout))

    assert one["need_bytes"] == two["need_bytes"]


ACCUMULATED = "plan = { tp = 4, pp = 2, seq_len = 4096, micro_batch = 2, grad_accum = 8 }"


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ((), ""),  # the recipe's own eight cards
        (("--cards", "16"), "32 samples per step; 16 in the recipe"),
        (("--cards", "32"), "64 samples per step; 16 in the recipe"),
        (("--cards", "16", "--tp", "2"), "64 samples per step; 16 in the recipe"),
        (("--cards", "16", "--grad-accum", "4"), ""),  # the command's own choice
        (("--cards", "16", "--micro-batch", "1"), ""),  # the same batch by other steps
    ],
)
def test_another_global_batch_is_named(
    words: tuple[str, ...], note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents publish accumulation steps; on other cards these give another batch, which an assumption says."""
    job = plan_recipe(
        tmp_path, f"parallel = {{ tensor = 4, pipeline = 2, data = 1 }}\n{ACCUMULATED}", monkeypatch, *words
    )

    found = [str(text) for text in job.assumed if text.startswith("global batch")]
    assert job.grad_accum == (4 if "--grad-accum" in words else 8)
    assert [note in text for text in found] == ([True] if note else [])
