"""envcheck solve in Chinese: words, notes of the tables and refusals; names, versions and titles of sources stay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import commands, main
from envcheck.compat import judging, loading, solving
from envcheck.compat.components import components
from envcheck.core import language
from envcheck.core.errors import EnvcheckError
from envcheck.core.language import width
from envcheck.report import version_sets
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH

TABLE = loading.table()
FILES = (Path(version_sets.__file__), Path(commands.__path__[0]) / "solve.py")
SAYERS = {**language_parts.SAYERS, "say": (0,), "_wrapped": (0,), "EnvcheckError": (0, 1)}
SCREENS = [
    *(("npu", "paddle", driver) for driver in ("24.1.rc1", "23.0.3", "25.5.2", "22.0.4")),
    *(("npu", "torch", driver) for driver in ("25.2.0", "26.0.rc1", "24.1.rc2")),
    *(("iluvatar", "paddle", driver) for driver in ("4.3.0", "4.3.8", "4.2.0")),
    *(("iluvatar", "torch", driver) for driver in ("4.4.0", "4.0.0")),
    *(("nvidia", framework, driver) for framework in ("paddle", "torch") for driver in ("550.54.15", "470.103.01")),
]
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


def screen(*asked: str) -> str:
    return CliRunner().invoke(main.main, ["solve", *asked]).output


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_sentence_has_its_chinese(file: Path) -> None:
    """What the screen says by itself, and what is refused, stands in a table, values aside."""
    assert lacking(text for text in language_parts.sentences(file, SAYERS) if text != "no {} is named with {}{}") == []


def test_each_note_of_the_version_tables_is_said_in_chinese() -> None:
    """Notes of rows, doubts about images, and names of components that are words."""
    notes = {row.note for row in TABLE.rows} | {image.doubt for image in TABLE.images}
    words = {title for c in components().values() if (title := c.title).islower() and " " in title}
    said = {text: language.say(text) for text in (notes | words) - {"", "gcc 9.4"}}

    assert len(said) > 40
    assert [text for text, told in said.items() if not re.search("[一-鿿]", told) or english(told)] == []


@pytest.mark.parametrize(("device", "framework", "driver"), SCREENS)
def test_a_screen_is_chinese(device: str, framework: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found, lacking, or of another driver: no English sentence besides titles of sources; lines fit the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    text = screen("--device", device, "--framework", framework, "--driver", driver)
    lines = [line for line in text.splitlines() if " " in line.strip() and "pip install" not in line]

    assert re.search("[一-鿿]", text)
    assert english(text) == []
    assert [line for line in lines if width.columns(line) > 60 and "镜像 " not in line] == []


def test_what_is_known_bad_here_is_chinese() -> None:
    """Pair, symptom and remedy of what is installed and fails together."""
    goal = TABLE.goals["npu", "paddle"]
    found = {"npu-driver": "24.1.rc1", "architecture": "x86_64", "numpy": "2.4.0", "cann": "8.0.RC1"}
    answered = solving.solve(goal, "24.1.rc1", "x86_64")
    told = version_sets.Told("npu", "paddle", "24.1.rc1", "x86_64", goal, answered, found, judging.judge(found), TABLE)
    text = version_sets.as_text(told, 80)

    assert "CANN 8.0.RC1 搭配 numpy 2.4.0：" in text
    assert english(text) == []


@pytest.mark.parametrize("asked", REFUSED, ids=" ".join)
def test_a_refusal_is_chinese(asked: tuple[str, ...]) -> None:
    """What was asked wrongly, or cannot be told, and what to do."""
    err = CliRunner().invoke(main.main, ["solve", *asked]).exception

    assert isinstance(err, EnvcheckError)
    assert [text for text in (err.message, err.next_step) if not re.search("[一-鿿]", language.say(text))] == []
