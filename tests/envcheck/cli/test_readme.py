"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.cli.main import COMMANDS
from installers.recipes import catalogue

HARDWARE = "What works on which hardware"
ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()


def read_block(mark: str) -> str:
    found = re.search(rf"<!-- {mark} -->\n```\w+\n(.*?)\n```\n<!-- /{mark} -->", README, re.S)
    assert found, mark
    return found[1]


@pytest.mark.parametrize("mark", ("first", "second"))
def test_commands_are_one_line(mark: str) -> None:
    """Each of the two commands is one line."""
    assert "\n" not in read_block(mark)


def test_screen_is_real() -> None:
    """The screen in the README is what its command prints, byte for byte."""
    command, _, screen = read_block("screen").partition("\n")
    env = {**os.environ, "COLUMNS": "80", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    done = subprocess.run(shlex.split(command[2:]), capture_output=True, text=True, env=env, timeout=120)

    assert done.stdout.rstrip() == screen
    assert done.returncode == 1


def test_verbs_exist() -> None:
    """The README names no verb that envcheck does not have."""
    quoted = re.findall(r"`([^`\n]+)`", README)
    named = {verb for text in quoted for verb in re.findall(r"\benvcheck ([a-z]+)", text)}

    assert named <= set(COMMANDS)


def test_links_lead_somewhere() -> None:
    """Every page that the README links to is there."""
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def read_table(text: str, first: str) -> list[list[str]]:
    """The rows of the table below the heading."""
    section = text.split(f"\n## {first}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [row for row in rows[1:] if not set("".join(row)) <= set("- ")]


def test_hardware_table_has_the_recipes() -> None:
    """The models and frameworks of each row are those of the built-in recipes, and no recipe is left out."""
    kinds: dict[str, set[tuple[str, str]]] = {}
    for recipe in catalogue.load_all():
        devices = sorted({catalogue.job_device((recipe, job)) for job in recipe.jobs})
        model = re.sub(r"(ERNIE-4\.5|Qwen1\.5)-([\d.]+B).*", r"\1 \2", recipe.models[0])
        kinds.setdefault("+".join(devices), set()).add((model, recipe.framework))
    devices_of_rows = ("npu", "iluvatar", "nvidia", "iluvatar+nvidia", "xpu", "cpu")
    rows = dict(zip(devices_of_rows, read_table(README, HARDWARE), strict=True))

    assert rows.keys() == kinds.keys()
    for devices, (_cards, _verbs, models, frameworks) in rows.items():
        named = {
            f"{family} {size}".strip() if sizes else family
            for family, _space, sizes in (group.partition(" ") for group in models.split("; "))
            for size in (sizes.split(", ") if sizes else [""])
        }
        assert named == {model for model, _framework in kinds[devices]}, devices
        wanted = {framework for _model, framework in kinds[devices]} - {"envcheck"}
        assert {name.lower().replace("ms-", "").replace("-", "") for name in frameworks.split(", ")} - {
            "paddlepaddle"
        } == wanted, devices


def test_chinese_readme_is_equal() -> None:
    """Both have the same sections, tables, commands and links, in the same order."""
    tables = [re.findall(r"^\|.*$", text, re.M) for text in (README, CHINESE)]
    commands = [re.findall(r"`(envcheck [^`]+|pipx [^`]+|uv[x ][^`]+)`", "\n".join(rows)) for rows in tables]

    assert len(tables[0]) == len(tables[1])
    assert commands[0] == commands[1]
    assert [row[2:] for row in read_table(README, HARDWARE)] == [row[2:] for row in read_table(CHINESE, "支持的硬件")]
