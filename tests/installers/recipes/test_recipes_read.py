"""Recipes of users: loaded exactly, or refused with file and key."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.cli.commands.recipes import recipes as recipes_command
from envcheck.core.errors import UsageError
from envcheck.job.command import render_command
from installers.recipes import catalogue
from installers.recipes.loader import SIZE_LIMIT, build_recipe, load_recipe, parse_recipe
from installers.recipes.validation import check_recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS = catalogue.load_all()
SMALL = """
name = "mine"
title = "a set-up of my own"
device = "cpu"
framework = "envcheck"
models = ["mine"]
[hardware]
product = "a laptop"
cards = { value = 2, source = "counted", published = 3, reason = "one is broken" }
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
    """A value may be a table with its source, the published value, and a reason."""
    recipe = parse_recipe(SMALL, "mine.toml")
    note = recipe.notes["hardware.cards"]

    assert (recipe.hardware.cards, note.source, note.published, note.reason) == (2, "counted", 3, "one is broken")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "mine"\n', "", ["name", "missing", "text"]),
        ("cards = {", "crads = {", ["hardware.crads", "unknown key", "cards"]),
        ("value = 2", 'value = "two"', ["hardware.cards", "a whole number", "two"]),
        ("value = 2", "value = true", ["hardware.cards", "a whole number"]),
        ("value = 2", "value = -2", ["hardware.cards", "a whole number, 0 or greater"]),
        ("value = 2", "value = 1.5", ["hardware.cards", "a whole number"]),
        ("published", "seedvalue", ["hardware.cards.seedvalue", "published"]),
        ('reason = "one is broken"', "reason = 1", ["hardware.cards.reason", "text"]),
        ("published = 3", "published = [3]", ["hardware.cards.published"]),
        ('models = ["mine"]', 'models = "mine"', ["models", "a list of texts"]),
        ('models = ["mine"]', "models = []", ["models", "at least one"]),
        ('models = ["mine"]', 'models = ["mine", 7]', ["models[1]", "text", "7"]),
        ('device = "cpu"', 'device = "gpu"', ["device", "npu, iluvatar, nvidia, xpu, cpu"]),
        ('name = "mine"', 'name = "../mine"', ["name", "lowercase"]),
        ('name = "mine"', 'name = "a\\u001b[31m"', ["name", "printable"]),
        ("[hardware]\n", '"\\u001b[31m" = 1\n[hardware]\n', ["\\x1b[31m", "unknown key"]),
        ("[hardware]", "[hardware.more]", ["hardware.more", "unknown key"]),
        ("[[jobs]]", "[jobs]", ["jobs", "a list of tables"]),
        ('"{python}", "train.py"', "", ["jobs.lora.launcher", "at least"]),
        ("train.py", "{trian}.py", ["jobs.lora.launcher", "{trian}"]),
        ('"--steps", "5"', '"--steps", "5", "--steps=6"', ["jobs.lora.arguments", "--steps", "2 times"]),
        ("steps = { max = 5 }", "steps = { max = 5, warmup = 20 }", ["jobs.lora.steps.warmup", "20", "5"]),
        ("steps = {", "parallel = { tensor = 3 }\nsteps = {", ["jobs.lora.parallel", "3"]),
        ("steps = {", "nodes = 0\nsteps = {", ["jobs.lora", "nodes"]),
        ("steps = {", 'environment = { "A;B" = "1" }\nsteps = {', ["jobs.lora.environment", "A;B"]),
        ("<2.4", "about 2", ["packages.numpy.specifier", "about 2"]),
        ('name = "numpy"', 'name = "--index-url=x"', ["packages", "package name"]),
        ("<2.4", '<2.4"\nindex = "http://somewhere', ["packages.numpy.index", "https"]),
        ('title = "a job"', 'title = "a\\njob"', ["jobs.lora.title", "one line"]),
        ("[hardware]", "[hardware", ["not valid TOML"]),
        ("value = 2", "value = " + "9" * 5000, []),
        ("value = 2", "value = 0x" + "f" * 5000, ["hardware.cards", "20000 bits"]),
        ("value = 2", "value = inf", ["hardware.cards", "inf"]),
        ("value = 2", "value = " + "[" * 3000, ["not valid TOML"]),
    ],
)
def test_malformed(old: str, new: str, words: list[str], tmp_path: Path) -> None:
    """An invalid recipe is refused with the file, the key and what was expected."""
    file = tmp_path / "mine.toml"
    assert old in SMALL
    file.write_text(SMALL.replace(old, new, 1))

    with pytest.raises(UsageError) as caught:
        load_recipe(file)

    said = f"{caught.value.message} {caught.value.next_step}"
    assert [word for word in [str(file), *words] if word not in said] == []
    assert len(said) < 1000 + 2 * len(str(file))
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"# " + b"x" * SIZE_LIMIT, "larger than"),
        (b"", "missing"),
        (b"\0", "not valid TOML"),
    ],
)
def test_unreadable_file(content: bytes, words: str, tmp_path: Path) -> None:
    """Files that are not text, too long or empty are refused as such."""
    (tmp_path / "x.toml").write_bytes(content)

    with pytest.raises(UsageError, match=words):
        catalogue.load_all(tmp_path)


def _list_paths(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*so_far, key) for key, _ in inner] + [p for key, v in inner for p in _list_paths(v, (*so_far, key))]


TABLES = [tomllib.loads(Path(recipe.file).read_text()) for recipe in OURS]


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)  # the machine that runs this may be busy
@given(data=st.data(), table=st.sampled_from(TABLES), other=junk)
def test_any_value_anywhere(data: st.DataObject, table: dict[str, Any], other: Any) -> None:
    """For any value of any key the recipe is loaded, or refused with the file's name."""
    changed = copy.deepcopy(table)
    path = data.draw(st.sampled_from(_list_paths(table)))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = other

    try:
        recipe = build_recipe(changed, "theirs.toml")
        check_recipe(recipe)
    except UsageError as err:
        assert err.message.startswith("theirs.toml: ")
        assert err.message.isprintable()
    else:
        assert [render_command(recipe, job) for job in recipe.jobs]


def test_own_recipe_wins(tmp_path: Path) -> None:
    """A user's recipe overrides the built-in one of the same name, and is marked."""
    (tmp_path / "a.toml").write_text(SMALL.replace('"mine"', '"tiny-cpu"', 1))
    known = catalogue.load_all(tmp_path)
    listed = CliRunner().invoke(recipes_command, ["--recipes", str(tmp_path)]).output

    assert catalogue.find_recipe(known, "tiny-cpu").title == "a set-up of my own"
    assert len(known) == len(OURS)
    assert "tiny-cpu (your own)" in listed
    assert listed.count("(your own)") == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder.rmdir(), "not a directory"),
        (lambda folder: None, "no recipe"),
        (lambda folder: [(folder / n).write_text(SMALL) for n in ("a.toml", "b.toml")], "two recipes are named mine"),
        (lambda folder: (folder / "a.toml").mkdir(), "not a file"),
    ],
)
def test_folder(make: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    """A missing or empty folder, and duplicate names, are refused with a message."""
    folder = tmp_path / "mine"
    folder.mkdir()
    make(folder)

    with pytest.raises(UsageError, match=words):
        catalogue.load_all(folder)
