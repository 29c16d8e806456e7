"""Recipes that inherit from others: inherited and replaced values, and every error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.core.errors import UsageError
from installers.recipes import catalogue, inheritance
from installers.recipes.loader import load_recipe, parse_recipe

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
    """Values are inherited unless the file sets them; name, title, models and usual never are."""
    made = load_recipe(folder / "own.toml")

    assert (made.name, made.title, made.models, made.usual, made.like) == ("own", "mine", ("mine",), False, "base")
    assert (made.device, made.hardware.product, made.hardware.cards) == ("cpu", "a machine", 4)
    assert made.environment == {"A": "1", "B": "3"}


def test_jobs(folder: Path) -> None:
    """An option replaces the one of its name, new ones are appended, removed ones are gone, and notes are inherited."""
    made = load_recipe(folder / "own.toml")
    lora, longer = made.jobs

    assert lora.arguments == ("--steps", "9", "--rate", "1e-5", "--rank", "8")
    assert (lora.launcher, lora.requires) == (("{python}", "lora.py"), ("lora.py", "data.json"))
    assert (longer.method, longer.variant, longer.title) == ("lora", "long", "a part of it")
    assert longer.arguments == ("--steps", "99", "--rate", "1e-5", "--rank", "8")
    assert made.notes["jobs.lora.long.arguments.--rate"].source == "its page, line 9"


def test_all_jobs_where_none_is_named(folder: Path) -> None:
    """A recipe without jobs inherits all of them."""
    (folder / "bare.toml").write_text('like = "base"\nname = "bare"\ntitle = "t"\nmodels = ["m"]\n')

    assert [job.method for job in load_recipe(folder / "bare.toml").jobs] == ["sft"]


def test_like_one_of_ours(tmp_path: Path) -> None:
    """A user's recipe may inherit from a built-in one, which need not be in the same folder."""
    (tmp_path / "mine.toml").write_text(
        'like = "ernie-300b-npu"\nname = "mine"\ntitle = "t"\nmodels = ["mine"]\n[hardware]\ncards = 8\n'
    )
    made, ours = load_recipe(tmp_path / "mine.toml"), catalogue.find_recipe(catalogue.load_all(), "ernie-300b-npu")

    assert (made.hardware.cards, made.hardware.product) == (8, ours.hardware.product)
    assert made.jobs == ours.jobs
    assert made.traps == ()


def test_a_circle(folder: Path) -> None:
    """Two recipes that are like each other are refused."""
    (folder / "base.toml").write_text(BASE.replace("usual = true", 'like = "own"'))

    with pytest.raises(UsageError, match="exceeds the limit of 4 levels of inheritance"):
        load_recipe(folder / "own.toml")


def test_replace_ours_by_name(tmp_path: Path) -> None:
    """An organisation's recipe has the name of a built-in one and is like it; so are others that are like it."""
    (tmp_path / "ernie-300b-npu.toml").write_text(
        'like = "ernie-300b-npu"\nname = "ernie-300b-npu"\ntitle = "ours"\nmodels = ["ernie-4.5-300b-a47b"]\n'
        '[environment]\nSITE = "1"\n'
    )
    (tmp_path / "mine.toml").write_text('like = "ernie-300b-npu"\nname = "mine"\ntitle = "t"\nmodels = ["mine"]\n')
    found = {recipe.name: recipe for recipe in catalogue.load_all(tmp_path)}
    ours = catalogue.find_recipe(catalogue.load_all(), "ernie-300b-npu")

    assert found["ernie-300b-npu"].environment == {**ours.environment, "SITE": "1"}
    assert found["ernie-300b-npu"].jobs == ours.jobs
    assert found["mine"].environment["SITE"] == "1"


WRONG = (
    ('like = "base"', 'like = "gone"', "like: unknown recipe 'gone'"),
    ('like = "base"', 'like = "../own"', "is not a valid recipe name"),
    ('like = "base"', "like = 7", "expected text"),
    ('like = "base"', 'like = "own"', "like: unknown recipe 'own'"),
    ('like = "sft"', 'like = "dpo"', "jobs.lora.like: unknown job 'dpo'"),
    ('without = ["--full"]', 'without = ["--half"]', "'--half' is not an option of 'sft'"),
    ('without = ["--full"]', "without = 7", "expected a list of texts"),
    ('instead = { "train.py" = "lora.py" }', "instead = { a = 7 }", "expected a table of texts"),
    ('like = "sft"', "", "without"),
    ('arguments = ["--rank", "8", "--steps", "9"]', "arguments = 7", "expected a list of texts"),
)


@pytest.mark.parametrize(("old", "new", "words"), WRONG, ids=[new or "no like" for _, new, _ in WRONG])
def test_wrong(old: str, new: str, words: str, folder: Path) -> None:
    """Every error is one sentence and wrong usage."""
    (folder / "own.toml").write_text(OWN.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_recipe(folder / "own.toml")

    assert words in f"{caught.value.message} {caught.value.next_step}"


@pytest.mark.parametrize("jobs", (7, [7], [{"like": 7}], {"like": "x"}, [{"method": 7, "like": "sft"}]))
def test_hostile_jobs(jobs: Any) -> None:
    """Jobs of any type end in a message, not in a traceback."""
    table = {"name": "x", "title": "t", "models": ["m"], "like": "tiny-cpu", "jobs": jobs}

    with pytest.raises(UsageError):
        parse_table(table)


def parse_table(table: dict[str, Any]) -> None:
    from installers.recipes.loader import build_recipe

    build_recipe(table, "x.toml")


def test_a_variant_has_a_key_of_its_own() -> None:
    """Two jobs of one method differ by their variant; duplicates are refused."""
    text = (Path(inheritance.__file__).parent / "tiny-cpu.toml").read_text()
    twice = f'{text}\n[[jobs]]\nlike = "lora"\nvariant = "more"\n'

    assert [job.variant for job in parse_recipe(twice, "x").jobs if job.method == "lora"] == ["", "more"]
