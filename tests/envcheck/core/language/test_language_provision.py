"""provision in Chinese: plans of hosts and of containers, what is in the way, progress; names and commands stay."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import installers
from envcheck.cli import main
from envcheck.core import language
from envcheck.core.language import width
from installers.images import engine_problems
from installers.output.plan_text import MARGIN, as_text
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan
from installers.recipes import catalogue
from installers.steps.dispatch import KINDS
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import TABLES, lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH

ROOT = Path(installers.__path__[0])
FILES = [
    *(Path(sys.modules[step.__module__].__file__ or "") for step in KINDS),
    *(
        ROOT / f"{name}.py"
        for name in (
            "steps/venv_state",
            "steps/container_state",
            "make_plan",
            "plan/step",
            "recipes/by_hand",
            "session",
        )
    ),
    ROOT / "output" / "plan_text.py",
    ROOT / "bundle" / "make.py",
    ROOT / "images" / "engine_problems.py",
    *(ROOT / f"{name}.py" for name in ("containers/compare", "output/container_text")),
]
SAYERS = {
    **language_parts.SAYERS,
    "say": (0,),
    "Obstacle": (0, 1),
    "Problem": (1, 2),
    "ByHand": (1,),
    "EnvcheckError": (0, 1),
    **{step.__name__: (0, 1, 2, 3) for step in KINDS},
    "Part": (0, 1),
}
LABELS = (
    *("already so", "by hand", "not asked", "mind", "in the way", "driver", "container", "packages", "sources"),
    *("image", "mounts", "devices", "runtime", "may", "network", "shares", "limits", "env", "workdir"),
)
# Commands, and parts of sentences that stand whole in a table.
KEPT = {
    *("{} -m pip uninstall {}", "sudo mkdir -p {} && sudo chown $USER {}", "docker rm --force {}"),
    *("lend the environment {} from {}{}", "docker pull {} {}", "rm -r {}"),
}
PASTED = re.compile(
    r"\$ .*|docker exec .*|\S+/python3? -m pip .*|https?://\S+|安装 .*|envcheck \w+ -.*|docker \w+"
    r"|envcheck recipes|sudo \w+ .*"
)
RECIPES = ("ernie-300b-npu", "ernie-21b-iluvatar", "tiny-nvidia", "tiny-cpu")


pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_sentence_has_its_chinese(file: Path) -> None:
    """What a step does and why, what is in the way and what to do about it, stands in a table, values aside."""
    alone = {text.strip() for text in TABLES}

    assert [text for text in lacking(sentences(file)) if text not in {*alone, *KEPT}] == []


def sentences(file: Path) -> dict[str, int]:
    """Those of a file, lines of shell scripts aside."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == "script")]
    return language_parts.of_source(ast.unparse(tree), SAYERS)


def test_each_head_has_its_chinese() -> None:
    """What begins the lines of a plan and of a container's fields."""
    assert [word for word in LABELS if language.label(word) == word] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_plan_is_chinese(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, what a person does by hand, what is in the way: no English sentence, and lines fit the terminal."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    texts = {}
    for columns in (60, 1000):
        monkeypatch.setenv("COLUMNS", str(columns))
        texts[columns] = CliRunner().invoke(main.main, ["provision", "--recipe", recipe, "--dry-run"]).output
    long = [line for line in texts[60].splitlines() if width.columns(line) > 60 and " " in line.strip()]

    assert "第 1 步" in texts[60] and "撤销" in texts[60]
    assert [line for line in long if "$ " not in line] == []
    assert ENGLISH.findall(PASTED.sub("|", texts[1000].replace(str(tmp_path), "HOME"))) == []


def test_what_a_bundle_would_hold_is_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part and where it comes from, in lines that fit the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    words = ["bundle", "--recipe", "tiny-cpu", "--dry-run", "-o", str(tmp_path / "x")]
    told = CliRunner().invoke(main.main, words).output.replace(str(tmp_path), "HOME")

    assert "来自" in told and ENGLISH.findall(PASTED.sub("|", told)) == []
    assert [line for line in told.splitlines() if width.columns(line) > 60] == []


def test_heads_stand_in_one_column() -> None:
    """What is said begins below what was said above, where a Chinese character takes two columns."""
    plan = Plan(
        "x", Path("/x"), (), ("image y",), (), (Obstacle("they are not there", "see to it, then repeat"),), mind=("x",)
    )
    lines = as_text(plan, 80).splitlines()[1:]

    assert {width.columns(re.match(r" +\S+ +|" + MARGIN, line)[0]) for line in lines} == {len(MARGIN)}  # type: ignore[index]


def test_recipes_are_really_planned() -> None:
    """The recipes that are looked at are those that there are."""
    assert set(RECIPES) <= {recipe.name for recipe in catalogue.load_all(None)}
    assert engine_problems.LEAST
