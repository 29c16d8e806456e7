"""The tables themselves: whole, without contradiction, and every mistake in one named with its place."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from envcheck.compat import pair_verdicts, table_loader, version_patterns
from envcheck.compat.components import load_components
from envcheck.compat.table_file import read_file
from envcheck.compat.version_records import Confidence, ImageVersions, PairStatus, VersionRow
from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe

TABLE = table_loader.own_version_table()
DATE = re.compile(r"20\d\d-\d\d(-\d\d)?")
SOURCES = '[sources]\nus = "seen here"\n'
ROW = """
[[groups]]
of = "cann"
rows = [{ version = "8.0.0", with = { npu-driver = "24.1.0" }, source = "us", date = "2026-11" }]
"""
RECIPES = catalogue.load_all(None)
# What a recipe calls its minimum of, by device.
SYSTEM = {"npu": ("npu-driver", "cann"), "iluvatar": ("corex-driver", "corex"), "nvidia": ("nvidia-driver", "cuda")}


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: f"{row.of} {row.version[0]} {' '.join(row.others)}")
def test_row_is_whole(row: VersionRow) -> None:
    """Each row has a source that is explained and a date; a bad one what happens and what to do."""
    assert row.source and set(row.source) <= set(TABLE.sources)
    assert DATE.fullmatch(row.date)
    assert row.standing is not PairStatus.BAD or (row.symptom and row.remedy)


def test_every_source_is_used() -> None:
    """Every listed source is used by a row, rule, image or option."""
    rules = (rule.row for rule in TABLE.rules)
    used = {name for each in (*TABLE.rows, *rules, *TABLE.images, *TABLE.renamed) for name in each.source}

    assert set(TABLE.sources) == used


def test_tables_do_not_contradict_themselves() -> None:
    """No pair that a row calls tested is known bad by another."""
    stated = {
        (row.of, mine, other, theirs)
        for row in TABLE.rows
        if row.standing is PairStatus.TESTED and row.confidence is not Confidence.INFERRED
        for other, versions in row.others.items()
        for mine in filter(version_patterns.is_single_version, row.version)
        for theirs in filter(version_patterns.is_single_version, versions)
    }
    found = {
        pair: pair_verdicts.evaluate_pair(pair[0], pair[2], {pair[0]: pair[1], pair[2]: pair[3]}) for pair in stated
    }

    assert [pair for pair, v in found.items() if v is None or v.standing is not PairStatus.TESTED] == []


def test_pairs_that_belong_to_the_vendors_are_there() -> None:
    """The chain from driver to framework is covered for each vendor."""
    chain = {
        *(("cann", "npu-driver"), ("npu-driver", "npu-firmware"), ("paddle-custom-npu", "cann"), ("torch-npu", "cann")),
        *(("paddle-custom-npu", "paddlepaddle"), ("torch-npu", "torch"), ("torch", "python")),
        *(("paddle-iluvatar-gpu", "corex-driver"), ("paddle-iluvatar-gpu", "paddlepaddle")),
        *(("cuda", "nvidia-driver"), ("paddlepaddle-gpu", "cuda"), ("paddlepaddle-gpu", "architecture")),
    }

    assert chain <= set(TABLE.pairs)


def test_each_rule_has_its_relation() -> None:
    """A rule names a relation that the judge knows."""
    assert {rule.relation for rule in TABLE.rules} <= set(pair_verdicts.RELATIONS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[groups]]\nof = 'cann'\nrows = [{", "not valid TOML"),
        (ROW.replace('"cann"', '"kann"'), "unknown component 'kann'"),
        (ROW.replace("npu-driver", "npu-drive"), "cann, row 1: unknown component 'npu-drive'"),
        (ROW.replace("8.0.0", "eight"), "cann 'eight' is not a version or version range"),
        (ROW.replace("24.1.0", ">=x"), "npu-driver '>=x' is not a version or version range"),
        (ROW.replace(', source = "us"', ""), "groups[0].rows[0].source: missing"),
        (ROW.replace('"us"', '"them"'), "source or date is missing"),
        (ROW.replace('date = "2026-11"', 'day = "x"'), "groups[0].rows[0].day: unknown key"),
        (ROW.replace("source =", 'verdict = "good", source ='), "verdict: expected one of tested, unknown, known bad"),
        (
            ROW.replace("source =", 'confidence = "sure", source ='),
            "confidence: expected one of tried, ",
        ),
        (ROW.replace('{ npu-driver = "24.1.0" }', "{ }"), "`with` is empty"),
    ],
)
def test_mistake_in_a_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    """An invalid table gives an error with file, group and row."""
    (tmp_path / "mine.toml").write_text(text if text.startswith("[[groups]]\nof = 'cann'") else SOURCES + text)

    with pytest.raises(UsageError) as told:
        table_loader.build_version_table([read_file(tmp_path / "mine.toml")])

    assert said in told.value.message and "mine.toml" in told.value.message


def test_a_table_of_ones_own_is_read(tmp_path: Path) -> None:
    """A folder with a single table is a complete set of tables."""
    (tmp_path / "mine.toml").write_text(SOURCES + ROW)
    table = table_loader.build_version_table([read_file(tmp_path / "mine.toml")])
    found = pair_verdicts.evaluate_pair(
        "cann", "npu-driver", {"cann": "8.0.0", "npu-driver": "24.1.0.b010"}, table=table
    )

    assert found is not None
    assert (found.standing, found.source, found.date) == (PairStatus.TESTED, ("us",), "2026-11")


@pytest.mark.parametrize("image", TABLE.images, ids=lambda image: image.references[0].rpartition("/")[2])
def test_image_holds_no_pair_that_is_known_bad(image: ImageVersions) -> None:
    """Images have full references, and no two of their components are a known-bad pair."""
    assert all(re.fullmatch(r"[a-z0-9.-]+(/[a-z0-9-]+)+:[\w.-]+", reference) for reference in image.references)
    assert set(image.holds) <= set(load_components())
    assert [v for v in pair_verdicts.evaluate_pairs(image.holds) if v.standing is PairStatus.BAD] == []


def test_renamed_options_are_told_by_tool() -> None:
    """Each old option name maps to one new name, with the version of the change."""
    spellings = {(each.tool, each.old): each for each in TABLE.renamed}

    assert len(spellings) == len(TABLE.renamed) > 0
    assert spellings["ms-swift", "--sft_type"].new == "--tuner_type"
    assert all(each.since and each.old != each.new for each in TABLE.renamed)


def _list_versions(recipe: Recipe) -> dict[str, str]:
    """The exact versions that a recipe names: its minima, its pinned packages, its Python."""
    pinned = {p.name: p.specifier.removeprefix("==") for p in recipe.packages if p.specifier.startswith("==")}
    driver, toolkit = SYSTEM.get(recipe.device, ("", ""))
    minima = {driver: recipe.driver_minimum or "", toolkit: recipe.toolkit_minimum or ""}
    python = {"python": recipe.python.partition(",")[0].removeprefix(">=")}
    return {name: version for name, version in {**minima, **pinned, **python}.items() if name and version}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipe_names_no_pair_that_is_known_bad(recipe: Recipe) -> None:
    """What a recipe installs together, on the oldest driver that it takes, is nowhere known to fail."""
    bad = [v for v in pair_verdicts.evaluate_pairs(_list_versions(recipe)) if v.standing is PairStatus.BAD]

    assert bad == []


def _list_allowed_bad_versions(recipe: Recipe) -> list[tuple[str, str, str, str]]:
    """Versions at a bound of a package's range, or of a table's, that the recipe allows and that are known bad."""
    named = _list_versions(recipe)
    found = []
    for package in recipe.packages:
        bounds = re.findall(r"\d[\w.]*", package.specifier)
        rows = [row for row in TABLE.rows if row.standing is PairStatus.BAD and package.name in (row.of, *row.others)]
        for row in rows:
            patterns = row.version if row.of == package.name else row.others[package.name]
            versions = {*bounds, *re.findall(r"\d[\w.]*", " ".join(patterns).lower().replace(".x", ".0"))}
            allowed = SpecifierSet(package.specifier).filter(sorted(versions), prereleases=True)
            for version, (other, theirs) in itertools.product(allowed, named.items()):
                known = {package.name: version, other: theirs}
                verdict = pair_verdicts.evaluate_pair(package.name, other, known) if other != package.name else None
                if verdict is not None and verdict.standing is PairStatus.BAD:
                    found.append((package.name, version, other, theirs))
    return found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipe_allows_no_version_that_is_known_bad(recipe: Recipe) -> None:
    """No range of a package has a version that is known to fail with the recipe's toolkit, driver or other packages."""
    assert _list_allowed_bad_versions(recipe) == []


def test_range_with_a_version_that_is_known_bad() -> None:
    """A recipe that allows numpy 2 with CANN 8.0 is found, by a bound inside the range of the table or by its own."""
    (recipe,) = (recipe for recipe in RECIPES if recipe.name == "tiny-npu")

    for specifier, is_bad in ((">=1.21,<2.4", True), (">=2.1,<2.4", True), ("", True), (">=1.21,<2", False)):
        packages = [replace(p, specifier=specifier) if p.name == "numpy" else p for p in recipe.packages]
        found = _list_allowed_bad_versions(replace(recipe, packages=tuple(packages)))

        assert (("numpy", "cann") in {(name, other) for name, _version, other, _theirs in found}) is is_bad


def test_recipes_name_pairs_that_the_tables_know() -> None:
    """Some pair of every recipe that pins a plugin is known, so that the test before this one can fail."""
    pinning = [r for r in RECIPES if {"paddle-custom-npu", "paddle-iluvatar-gpu"} & set(_list_versions(r))]

    assert pinning
    assert all(any(v.source for v in pair_verdicts.evaluate_pairs(_list_versions(recipe))) for recipe in pinning)
