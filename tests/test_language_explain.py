"""envcheck explain in Chinese: its own words, and the entries of the catalogue, all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import language_parts
import pytest
from click.testing import CliRunner
from test_language import lacking
from test_language_reports import ENGLISH

from envcheck import cli, language
from launch.diagnose import catalogue, order, show

AREAS = sorted({entry.area for entry in catalogue.entries()})
LOG = """
RuntimeError: [rank3] EI0006 Getting socket times out. Reason: Remote Rank did not send the data in time.
E30006: verify opp package failed
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB
"""


@pytest.mark.parametrize("area", AREAS)
def test_each_entry_has_its_chinese(area: str) -> None:
    """What it says, why, and what to do; {code} and its kin are values."""
    mine = [entry for entry in catalogue.entries() if entry.name.partition(".")[0] == area]
    texts = [text for entry in mine for text in (entry.says, entry.why, entry.do) if text]

    assert len(mine) >= 3
    assert lacking(re.sub(r"\{\w+\}", "{}", text) for text in texts) == []


@pytest.mark.parametrize("area", AREAS)
def test_what_the_line_did_not_name_leaves_no_english(area: str, chinese: None) -> None:
    """An entry whose line named neither file nor option nor code is said in Chinese, too."""
    mine = [entry for entry in catalogue.entries() if entry.area == area]
    said = [language.say(order.made_of(entry, {}, (), 1).says) for entry in mine]

    assert [text for text in said if not re.search("[一-鿿]", text) or re.search(r"\b(?:the|an?) [a-z]+", text)] == []


def test_each_word_of_the_report_has_its_chinese() -> None:
    """What the report says by itself."""
    said = language_parts.sentences(Path(show.__file__), {"say": (0,), "_lines": (0,)})

    assert len(said) > 10
    assert lacking(said) == []


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Help stays as it is: commands are the same objects in the tests that come after."""
    monkeypatch.setattr("envcheck.language.commands._translate", lambda command: None)
    language.choose(["--lang", "zh"], {})
    yield
    language.choose([], {})


def test_a_log_is_explained_in_chinese(tmp_path: Path, chinese: None) -> None:
    """Cause, reason and deed of what is translated keep no English but the log's lines and commands."""
    (tmp_path / "x.log").write_text(LOG)
    text = CliRunner().invoke(cli.main, ["explain", str(tmp_path / "x.log")]).output
    ours = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "$", "参见", "http"))]

    assert "原因：" in text and "处理：请" in text
    assert [run for line in ours for run in ENGLISH.findall(line)] == []


def test_json_stays_english(tmp_path: Path, chinese: None) -> None:
    """A program's document does not follow the locale."""
    (tmp_path / "x.log").write_text(LOG)
    language.choose(["explain", "x.log", "--json"], {"LANG": "zh_CN.UTF-8"})
    text = CliRunner().invoke(cli.main, ["explain", str(tmp_path / "x.log"), "--json"]).output

    assert "The operator package does not verify (E30006)" in text
