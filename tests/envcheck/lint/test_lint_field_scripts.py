"""Scripts and configurations as found in the field: the complete list of remarks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint import linter
from envcheck.scripts import source_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[2] / "data" / "lint" / "field"
EXPECTED = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))
PATHS = sorted(path for path in FOLDER.iterdir() if path.name != "expected.toml")
# Told by what is on the machine that the test runs on.
HERE = ("paths.missing", "container.mount_source")


def list_remarks(path: Path) -> list[str]:
    """As "line rule", on a live machine of which nothing else is known."""
    result = linter.lint_source(
        source_file.make_source(path.name, path.read_bytes()), TargetMachine(lambda: Facts(), live=True), others=False
    )
    found = (
        f"{result.source.find_position(each.start)[0]} {each.rule}" for each in result.remarks if each.rule not in HERE
    )
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_what_is_said_of_it(path: Path) -> None:
    """Each mistake is reported on its line, and nothing else is."""
    assert list_remarks(path) == EXPECTED[path.name]


def test_each_is_expected() -> None:
    """No file without its remarks, none without a file, and some are right as they are."""
    assert {path.name for path in PATHS} == set(EXPECTED)
    assert sum(not found for found in EXPECTED.values()) >= 4
