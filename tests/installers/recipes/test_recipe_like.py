"""Recipes that leave values to others: what they take, what they change, and every way of being wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.core.errors import UsageError
from installers.recipes import catalogue, likeness
from installers.recipes.recipes_file import load, parse

BASE = """
name = "base"
title = "the one that others are like"
device = "cpu"
framework = "envcheck"
models = ["tiny"]
usual = true
source = "its page"
hardware = { product = "a machine", cards = 2 }
environment = { A = "1", B = { value = "2", source = "its page, line 3" } }
[[jobs]]
method = "sft"
title = "all of it"
launcher = ["{python}", "train.py"]
arguments = ["--steps", "5", { value = ["--rate", "1e-5"], source = "its page, line 9" }, "--full"]
requires = ["train.py", "data.json"]
"""
OWN = """
like = "base"
name = "own"
title = "mine"
models = ["mine"]
hardware = { cards = 4 }
environment = { B = "3" }
[[jobs]]
like = "sft"
method = "lora"
title = "a part of it"
arguments = ["--rank", "8", "--steps", "9"]
without = ["--full"]
instead = { "train.py" = "lora.py" }
[[jobs]]
like = "lora"
variant = "long"
arguments = ["--steps", "99"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path


def test_takes_and_changes(folder: Path) -> None:
    """Values come from the other recipe save those that the file says; name, title, models and usual never do."""
    made = load(folder / "own.toml")

    assert (made.name, made.title, made.models, made.usual, made.like) == ("own", "mine", ("mine",), False, "base")
    assert (made.device, made.hardware.product, made.hardware.cards) == ("cpu", "a machine", 4)
    assert made.environment == {"A": "1", "B": "3"}


def test_jobs(folder: Path) -> None:
    """An option takes the place of its namesake, a new one comes last, a dropped one goes, and notes come along."""
    made = load(folder / "own.toml")
    lora, longer = made.jobs

    assert lora.arguments == ("--steps", "9", "--rate", "1e-5", "--rank", "8")
    assert (lora.launcher, lora.requires) == (("{python}", "lora.py"), ("lora.py", "data.json"))
    assert (longer.method, longer.variant, longer.title) == ("lora", "long", "a part of it")
    assert longer.arguments == ("--steps", "99", "--rate", "1e-5", "--rank", "8")
    assert made.notes["jobs.lora.long.arguments.--rate"].source == "its page, line 9"


def test_all_jobs_where_none_is_named(folder: Path) -> None:
    """A recipe that names no job has those of the other."""
    (folder / "bare.toml").write_text('like = "base"\nname = "bare"\ntitle = "t"\nmodels = ["m"]\n')

    assert [job.method for job in load(folder / "bare.toml").jobs] == ["sft"]


def test_like_one_of_ours(tmp_path: Path) -> None:
    """A recipe of one's own may be like one of ours, which need not lie beside it."""
    (tmp_path / "mine.toml").write_text(
        'like = "ernie-300b-npu"\nname = "mine"\ntitle = "t"\nmodels = ["mine"]\n[hardware]\ncards = 8\n'
    )
    made, ours = load(tmp_path / "mine.toml"), catalogue.by_name(catalogue.load_all(), "ernie-300b-npu")

    assert (made.hardware.cards, made.hardware.product) == (8, ours.hardware.product)
    assert made.jobs == ours.jobs
    assert made.traps == ()


WRONG = (
    ('like = "base"', 'like = "gone"', "there is no recipe 'gone'"),
    ('like = "base"', 'like = "../own"', "no name of a recipe"),
    ('like = "base"', "like = 7", "expected text"),
    ('like = "base"', 'like = "own"', "and so on"),
    ('like = "sft"', 'like = "dpo"', "there is no job 'dpo'"),
    ('without = ["--full"]', 'without = ["--half"]', "'--half' is no option of 'sft'"),
    ('without = ["--full"]', "without = 7", "expected a list of texts"),
    ('instead = { "train.py" = "lora.py" }', "instead = { a = 7 }", "expected a table of texts"),
    ('like = "sft"', "", "without"),
    ('arguments = ["--rank", "8", "--steps", "9"]', "arguments = 7", "expected a list of texts"),
)


@pytest.mark.parametrize(("old", "new", "words"), WRONG, ids=[new or "no like" for _, new, _ in WRONG])
def test_wrong(old: str, new: str, words: str, folder: Path) -> None:
    """Whatever is wrong about it is one sentence and wrong usage."""
    (folder / "own.toml").write_text(OWN.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load(folder / "own.toml")

    assert words in f"{caught.value.message} {caught.value.next_step}"


@pytest.mark.parametrize("jobs", (7, [7], [{"like": 7}], {"like": "x"}, [{"method": 7, "like": "sft"}]))
def test_hostile_jobs(jobs: Any) -> None:
    """Jobs of any kind end in a sentence, never in a traceback."""
    table = {"name": "x", "title": "t", "models": ["m"], "like": "tiny-cpu", "jobs": jobs}

    with pytest.raises(UsageError):
        from_our_table(table)


def from_our_table(table: dict[str, Any]) -> None:
    from installers.recipes.recipes_file import from_table

    from_table(table, "x.toml")


def test_a_variant_has_a_key_of_its_own() -> None:
    """Two jobs of one method stand apart by their variant; the same twice is refused."""
    text = (Path(likeness.__file__).parent / "tiny-cpu.toml").read_text()
    twice = f'{text}\n[[jobs]]\nlike = "lora"\nvariant = "more"\n'

    assert [job.variant for job in parse(twice, "x").jobs if job.method == "lora"] == ["", "more"]
