"""Screens in Chinese, as a person sees them: recipes, the driver's installation, what would run, refusals of infer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import EnvcheckError
from envcheck.core.language import width
from installers.recipes import catalogue
from tests.envcheck.core.language.test_language_reports import ENGLISH

RECIPES = {recipe.name: recipe for recipe in catalogue.load_all(None)}
INFER = (
    ("--json", "--recipe", "tiny-cpu"),
    ("--checkpoint", "3"),
    ("--run", "latest", "--adapter", "x"),
    ("--method", "lora", "--recipe", "tiny-cpu"),
    ("--recipe", "tiny-cpu", "--ask", " "),
    ("--recipe", "tiny-cpu", "--adapter", "x", "--ask", "a\tb"),
    (),
)

# A command that is there to be pasted, a pattern, a list of names.
PASTED = re.compile(
    r"(?:sudo|docker|envcheck|git|pip|apt-get|yum|groupadd|mkdir|rm|mv|ls|df|cat|sh|env|find|kubectl)(?: -| \w).*"
    r"|`[^`]*`|-m [\w.]+ \w+|https?://\S+|\"[^\"]*\"|'[^']*'"
)


pytestmark = pytest.mark.usefixtures("chinese")


def screen(*argv: str) -> str:
    return CliRunner().invoke(main.main, argv).output


def test_the_table_of_recipes_is_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads in columns that begin below each other; on a narrow terminal a few lines for each recipe, all fitting."""
    wide, narrow = (monkeypatch.setenv("COLUMNS", n) or screen("recipes").splitlines() for n in ("120", "60"))  # type: ignore[func-returns-value]
    head = next(line for line in wide if line.startswith("配方"))

    assert {width.display_width(head[: head.index("模型")])} == {wide[1].index(RECIPES[wide[1].split()[0]].models[0])}
    assert max(map(width.display_width, narrow)) <= 60
    assert "框架 erniekit" in " ".join(narrow)


@pytest.mark.parametrize("name", ["ernie-300b-npu", "qwen-7b-npu-swift", "tiny-cpu"])
def test_the_page_of_a_recipe_is_chinese(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Titles, reasons and what the published document said; each line begins with nothing that is English."""
    monkeypatch.setenv("COLUMNS", "1000")
    text = screen("recipes", "show", name)
    said = [line for line in text.splitlines() if re.match(r" +(?:原因|此处|文档)", line) or "title = " in line]

    assert RECIPES[name].title not in text and "模型：" in text
    assert len(said) >= 2
    assert [line for line in said if not re.search("[一-鿿]", line) or re.search(r"\b(?:the|an?|is|of) ", line)] == []
    assert not re.search(r"^ *(?:why|here|published|models|file): ", text, re.M)


def test_a_driver_is_planned_in_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State, unknowns, step and obstacles: headings in one column, no English sentence."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "1000")
    file = tmp_path / "Ascend-hdk-910b-npu-driver_23.0.1_linux-x86_64.run"
    file.write_text("#!/bin/sh\nexit 0\n")
    text = screen("provision", "--recipe", "ernie-300b-npu", "--install-driver", str(file), "--dry-run").replace(
        str(tmp_path), "T"
    )
    begun = filter(None, (re.match(r"  \S+ (?:\d \S+ )? +", line) for line in text.splitlines()))

    assert "该文件的版本为 23.0.1，配方要求 23.0.3 或更新" in text and "许可协议" in text
    assert {width.display_width(found[0]) for found in begun} == {15}
    assert [run for run in ENGLISH.findall(PASTED.sub("|", text)) if "," not in run] == []  # a list of names


def test_what_would_run_is_told_in_chinese() -> None:
    """Title, cautions, headings, and the settings still missing."""
    text = screen("train", "--recipe", "ernie-300b-npu", "--method", "sft", "--dry-run")
    ours = "\n".join(line for line in text.splitlines() if not line.startswith("  ") or "：" in line)

    assert "命令：" in text and "注意：" in text and "缺失：" in text
    assert ENGLISH.findall(re.sub(r"`envcheck \w+`|envcheck \w+ -[^\n]*", "|", ours)) == []  # commands


@pytest.mark.parametrize("argv", INFER, ids=" ".join)
def test_a_refusal_of_infer_is_chinese(argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors about the question, the weights or the program, with the next step."""
    monkeypatch.chdir(tmp_path)
    err = CliRunner().invoke(main.main, ["infer", *argv]).exception

    assert isinstance(err, EnvcheckError)
    assert [text for text in (err.message, err.next_step) if not re.search("[一-鿿]", language.translate(text))] == []
