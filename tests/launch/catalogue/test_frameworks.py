"""frameworks.toml and framework_options.toml: every number has an origin, every framework its own names."""

from __future__ import annotations

import re

from envcheck.core.toml_file import load_own_table
from launch.catalogue import framework_options, frameworks

NUMBER = re.compile(r"[a-z_]+ = -?\d[\d.e]*")


def test_every_number_has_an_origin() -> None:
    """Each number of a framework has its derivation, or the readings that it was fitted to, on its line."""
    text = frameworks.FILE.read_text(encoding="utf-8")
    lines = text[text.index("[framework.common]") :].splitlines()
    bare = [line for line in lines if NUMBER.fullmatch(line.partition("#")[0].strip()) and "#" not in line]

    assert bare == []


def test_fitted_numbers_have_their_left_out_error() -> None:
    """A number that was fitted names the readings, and the error or the value without it."""
    fitted = [line for line in frameworks.FILE.read_text(encoding="utf-8").splitlines() if "# fitted: " in line]

    assert len(fitted) >= 6
    assert [line for line in fitted if not re.search(r"without|above|points|for all", line)] == []


def test_sources_belong_to_the_number_in_use() -> None:
    """A framework that replaces a number does not cite the source of the replaced one."""
    known = frameworks.load_frameworks()

    assert "adapter" in known["generic"].sources
    assert not {"adapter", "loss"} & known["paddle"].sources.keys()


def test_options_are_those_of_known_frameworks() -> None:
    """Each table of own option names belongs to a framework and cites its source."""
    tables = load_own_table(framework_options.FILE)

    assert tables.keys() <= frameworks.load_frameworks().keys()
    assert all(table["source"] and table["title"] for table in tables.values())
