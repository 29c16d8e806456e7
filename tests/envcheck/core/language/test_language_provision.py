"""provision in Chinese: plans of hosts and of containers, what is in the way, progress; names and commands stay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core.language import width
from envcheck.core.messages import _
from installers.images import engine_problems
from installers.output.plan_text import MARGIN, render_plan
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan
from installers.recipes import catalogue
from tests.envcheck.core.language.test_language_reports import ENGLISH

PASTED = re.compile(
    r"\$ .*|docker exec .*|\S+/python3? -m pip .*|https?://\S+|安装 .*|envcheck \w+ -.*|docker \w+"
    r"|envcheck recipes|sudo \w+ .*"
)
RECIPES = ("ernie-300b-npu", "ernie-21b-iluvatar", "tiny-nvidia", "tiny-cpu")


pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_plan_is_chinese(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, manual steps and blockers have no English sentence, and lines fit the terminal."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    texts = {}
    for columns in (60, 1000):
        monkeypatch.setenv("COLUMNS", str(columns))
        texts[columns] = CliRunner().invoke(main.main, ["provision", "--recipe", recipe, "--dry-run", "-v"]).output
    long = [line for line in texts[60].splitlines() if width.display_width(line) > 60 and " " in line.strip()]

    assert "步骤 1" in texts[60] and "撤销" in texts[60]
    assert [line for line in long if "$ " not in line] == []
    assert ENGLISH.findall(PASTED.sub("|", texts[1000].replace(str(tmp_path), "HOME"))) == []


def test_what_a_bundle_would_hold_is_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part and where it comes from, in lines that fit the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    words = ["bundle", "--recipe", "tiny-cpu", "--dry-run", "-o", str(tmp_path / "x")]
    told = CliRunner().invoke(main.main, words).output.replace(str(tmp_path), "HOME")

    assert "来自" in told and ENGLISH.findall(PASTED.sub("|", told)) == []
    assert [line for line in told.splitlines() if width.display_width(line) > 60] == []


def test_heads_stand_in_one_column() -> None:
    """What is said begins below what was said above, where a Chinese character takes two columns."""
    plan = Plan(
        "x",
        Path("/x"),
        (),
        ("image y",),
        (),
        (Obstacle(_("no virtual environment at {folder}", folder="/x"), _("run the same command again")),),
        notes=("x",),
    )
    lines = render_plan(plan, 80).splitlines()[1:]

    assert {width.display_width(re.match(r" +\S+ +|" + MARGIN, line)[0]) for line in lines} == {len(MARGIN)}  # type: ignore[index]


def test_recipes_are_really_planned() -> None:
    """The recipes that are looked at are those that there are."""
    assert set(RECIPES) <= {recipe.name for recipe in catalogue.load_all(None)}
    assert engine_problems.LEAST
