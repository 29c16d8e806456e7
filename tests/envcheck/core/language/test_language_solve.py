"""envcheck solve in Chinese: words, notes of the tables and refusals; names, versions and titles of sources stay."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.compat import pair_verdicts, solver, table_loader
from envcheck.compat.components import load_components
from envcheck.core import language
from envcheck.core.errors import EnvcheckError
from envcheck.report import version_sets
from tests.envcheck.core.language.test_language_reports import ENGLISH

TABLE = table_loader.own_version_table()
REFUSED = [
    ("--device", "cpu"),
    ("--driver", "4.3.0"),
    ("--device", "npu", "--driver", "x.x.x"),
    ("--device", "npu"),
    ("--device", "auto"),
]


pytestmark = pytest.mark.usefixtures("chinese")


def english(text: str) -> list[str]:
    """Two English words in a row, besides titles of sources, packages and what is there to be pasted."""
    sources = sorted(TABLE.sources.values(), key=len, reverse=True)
    joined = " ".join(text.split())
    for kept in (*sources, "pip install"):
        joined = joined.replace(kept, "|")
    return ENGLISH.findall(re.sub(r"envcheck \w+ -[^\n]*", "|", joined))


def test_each_note_of_the_version_tables_is_said_in_chinese() -> None:
    """Notes of rows, doubts about images, and names of components that are words."""
    notes = {row.note for row in TABLE.rows} | {image.doubt for image in TABLE.images}
    words = {title for c in load_components().values() if (title := c.title).islower() and " " in title}
    said = {text: language.translate(text) for text in (notes | words) - {"", "gcc 9.4"}}

    assert len(said) > 40
    assert [text for text, told in said.items() if not re.search("[一-鿿]", told) or english(told)] == []


def test_what_is_known_bad_here_is_chinese() -> None:
    """Pair, symptom and remedy of what is installed and fails together."""
    goal = TABLE.goals["npu", "paddle"]
    found = {"npu-driver": "24.1.rc1", "architecture": "x86_64", "numpy": "2.4.0", "cann": "8.0.RC1"}
    answered = solver.solve_versions(goal, "24.1.rc1", "x86_64")
    told = version_sets.SolveReport(
        "npu", "paddle", "24.1.rc1", "x86_64", goal, answered, found, pair_verdicts.evaluate_pairs(found), TABLE
    )
    text = version_sets.as_text(told, 80)

    assert "CANN 8.0.RC1 搭配 numpy 2.4.0：" in text
    assert english(text) == []


@pytest.mark.parametrize("asked", REFUSED, ids=" ".join)
def test_a_refusal_is_chinese(asked: tuple[str, ...]) -> None:
    """What was asked wrongly, or cannot be told, and what to do."""
    err = CliRunner().invoke(main.main, ["solve", *asked]).exception

    assert isinstance(err, EnvcheckError)
    assert [text for text in (err.message, err.next_step) if not re.search("[一-鿿]", language.translate(text))] == []
